#include <cmath>
#include <memory>

#include "check.h"
#include "graph/search/mini_buckets.h"
#include "graph/search/neighbourhoods.h"
#include "random_graph.h"

using namespace shardprop::graph;

namespace {

constexpr RandomGraph kLinked{.least_nodes = 3, .rows = 0, .edges = 4, .forbidden = 0.05};

// A model after some passes of messages, which refer to it.
struct Ready {
  Ready(Model model_in, double least_in)
      : model(std::move(model_in)), passing(model), least(least_in) {}
  Ready(const Ready&) = delete;

  [[nodiscard]] MiniBuckets buckets(double most_entries, Meter& meter) const {
    return {slacks(model, passing, order.live), order, most_entries, meter};
  }

  Model model;
  MessagePassing passing;
  EliminationOrder order;
  double least;
};

// Nothing where no assignment is allowed.
std::unique_ptr<Ready> ready(std::uint64_t seed, int passes) {
  const Problem problem =
      seed % 2 == 0 ? frustrated_graph(seed, 5, 3) : random_graph(seed, kLinked);
  const auto least = least_objective(problem);
  auto model = model_of(problem);
  if (!model || !least) return nullptr;
  auto out = std::make_unique<Ready>(std::move(*model), *least);
  for (int i = 0; i < passes; ++i) {
    CHECK(out->passing.pass_ahead(kNever));
    CHECK(out->passing.pass_back(kInfinity, kNever) < kInfinity);
  }
  out->order = order_for_buckets(out->model, out->passing.prices);
  return out;
}

}  // namespace

TEST(graph_mini_buckets_bound_all_answers_and_are_exact_where_none_is_split) {
  int loose = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const auto of = ready(100000 + seed, static_cast<int>(seed % 3));
    if (!of) continue;
    Meter meter(kNever);
    for (const double entries : {1.0, 4.0, 16.0, 64.0}) {
      const MiniBuckets buckets = of->buckets(entries, meter);
      CHECK(buckets.is_made());
      CHECK(buckets.bound() <= of->least + 1e-9);
      loose += buckets.bound() < of->least - 1e-9;
    }
    CHECK(std::abs(of->buckets(1e9, meter).bound() - of->least) < 1e-9);
  }
  CHECK(loose > 50);
}

TEST(graph_mini_buckets_lead_to_the_best_answer_below_a_cutoff) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const auto of = ready(110000 + seed, static_cast<int>(seed % 3));
    if (!of) continue;
    Meter meter(kNever);
    for (const double entries : {1.0, 8.0, 1e9}) {
      const MiniBuckets buckets = of->buckets(entries, meter);
      std::int64_t tried = 0;
      const auto found = [&](double cutoff) {
        return buckets.search(cutoff, 1'000'000, meter, tried);
      };
      CHECK(found(of->least - 1e-6).outcome == Elimination::Outcome::kNoAnswer);
      for (const double cutoff : {of->least + 1e-6, kInfinity}) {
        const Elimination best = found(cutoff);
        CHECK(best.outcome == Elimination::Outcome::kSolved);
        CHECK(std::abs(of->model.cost(best.chosen) - of->least) < 1e-9);
      }
      CHECK(tried > 0 || of->order.steps.empty());
      CHECK(buckets.search(kInfinity, 0, meter, tried).outcome != Elimination::Outcome::kNoAnswer);
    }
  }
}

TEST(graph_mini_buckets_take_components_apart) {
  const auto tried_of = [](const Problem& problem) {
    const auto model = model_of(problem);
    const MessagePassing passing(*model);
    const auto order = order_for_buckets(*model, passing.prices);
    Meter meter(kNever);
    const MiniBuckets buckets(slacks(*model, passing, order.live), order, 16, meter);
    std::int64_t tried = 0;
    const auto found = buckets.search(kInfinity, 100'000'000, meter, tried);
    CHECK(found.outcome == Elimination::Outcome::kSolved);
    return tried;
  };
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Problem one = frustrated_graph(seed, 8, 3);
    const std::int64_t alone = tried_of(one);
    auto unaries = one.unaries;
    auto edges = one.edges;
    const int nodes = one.nodes();
    for (int copy = 1; copy < 3; ++copy) {
      unaries.insert(unaries.end(), one.unaries.begin(), one.unaries.end());
      for (Edge edge : one.edges) {
        edge.u += copy * nodes;
        edge.v += copy * nodes;
        edges.push_back(edge);
      }
    }
    CHECK_EQ(tried_of(Problem(unaries, one.tables, edges, {}, {}, {})), 3 * alone);
  }
}

TEST(graph_mini_buckets_have_an_order_however_wide_the_model_is) {
  // 150 nodes of two labels, all linked: no number counts the entries of a table of all.
  const auto model = model_of(frustrated_graph(1, 150, 2));
  const MessagePassing passing(*model);
  const auto order = order_for_buckets(*model, passing.prices);
  CHECK_EQ(order.steps.size(), static_cast<std::size_t>(model->variables()));
  Meter meter(kNever);
  CHECK(MiniBuckets(slacks(*model, passing, order.live), order, 256, meter).is_made());
  CHECK(!MiniBuckets(slacks(*model, passing, order.live), order, 1 << 24, meter).is_made());
}

TEST(graph_mini_buckets_that_are_interrupted_are_not_made) {
  const Interrupt always = [] { return true; };
  const int labels = 1 << 6;
  std::vector<std::vector<double>> unaries(4, std::vector<double>(labels, 1.0));
  std::vector<Table> tables;
  std::vector<Edge> edges;
  for (int v = 0; v < 4; ++v) {
    for (int u = 0; u < v; ++u) {
      std::vector<double> prices;
      for (int i = 0; i < labels * labels; ++i) prices.push_back(i * (i % 7 + u + 4 * v + 1) % 97);
      edges.push_back({u, v, static_cast<int>(tables.size()), -1, -1});
      tables.push_back({labels, labels, std::move(prices)});
    }
  }
  const auto model = model_of(Problem(unaries, tables, edges, {}, {}, {}));
  const MessagePassing passing(*model);
  const auto order = order_for_buckets(*model, passing.prices);
  Meter meter(always);
  CHECK(!MiniBuckets(slacks(*model, passing, order.live), order, 1e9, meter).is_made());
}

TEST(graph_neighbourhoods_leave_all_others_where_they_are) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const auto of = ready(120000 + seed, 0);
    if (!of || of->model.variables() == 0) continue;
    Neighbourhoods neighbourhoods(of->model);
    const std::vector<int> chosen(static_cast<std::size_t>(of->model.variables()), 0);
    for (int i = 0; i < 5; ++i) {
      const auto order = neighbourhoods.next(chosen, of->passing.prices, 16);
      CHECK(order.widest <= 16);
      for (std::size_t v = 0; v < chosen.size(); ++v) {
        CHECK_EQ(order.live[v][0], 0);  // what is chosen may be kept
        const bool is_near = order.live[v].size() > 1;
        CHECK(!is_near ||
              static_cast<int>(order.live[v].size()) == of->passing.left(static_cast<int>(v)));
      }
      const auto changed = neighbourhoods.changed(chosen);
      for (std::size_t v = 0; v < chosen.size(); ++v) {
        CHECK(changed[v] >= 0 && changed[v] < of->model.labels(static_cast<int>(v)));
      }
    }
  }
}
