#include <cmath>
#include <iostream>

#include "check.h"
#include "graph/solve.h"
#include "random_graph.h"

using namespace shardprop::graph;

namespace {

bool close(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(1.0, std::abs(b)); }

// The answer is the proved least objective, or the proof that there is none.
bool solves(const Problem& problem, const Answer& answer) {
  const auto least = least_objective(problem);
  if (!answer.proved) return false;
  if (!least) return answer.status == Answer::Status::kInfeasible && answer.labels.empty();
  return answer.status == Answer::Status::kOptimal && problem.allows(answer.labels) &&
         answer.objective == problem.objective(answer.labels) && close(answer.objective, *least) &&
         answer.lower_bound <= answer.objective && close(answer.lower_bound, answer.objective);
}

struct Tally {
  int wrong = 0, eliminated = 0, branched = 0, infeasible = 0;
};

Tally tally(std::uint64_t first_seed, int count, const RandomGraph& shape, const Options& options) {
  Tally out;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t seed = first_seed + static_cast<std::uint64_t>(i);
    const Problem problem = random_graph(seed, shape);
    const Answer answer = solve(problem, options);
    out.eliminated += answer.width >= 0;
    out.branched += answer.nodes > 0;
    out.infeasible += answer.status == Answer::Status::kInfeasible;
    if (solves(problem, answer)) continue;
    if (out.wrong++ < 3) std::cerr << "seed " << seed << '\n';
  }
  return out;
}

// Frustrated: dense, with few forbidden entries, so that bounds alone prove little.
constexpr RandomGraph kDense{.least_nodes = 4, .rows = 0, .edges = 4, .forbidden = 0.02};
constexpr RandomGraph kDenseRows{.least_nodes = 4, .rows = 2, .edges = 4, .forbidden = 0.02};

}  // namespace

TEST(graph_solve_finds_the_least_of_small_problems) {
  const Tally of = tally(1, 3000, {.rows = 0}, {});
  CHECK_EQ(of.wrong, 0);
  CHECK(of.infeasible > 500);
}

TEST(graph_solve_keeps_resource_rows) {
  const Tally of = tally(10000, 4000, {}, {});
  CHECK_EQ(of.wrong, 0);
  CHECK(of.infeasible > 500);
}

TEST(graph_solve_eliminates_what_messages_leave) {
  CHECK_EQ(tally(20000, 2000, kDense, {}).wrong, 0);
  CHECK_EQ(tally(22000, 2000, kDenseRows, {}).wrong, 0);
  Options options;
  options.patience = 0;
  const Tally without = tally(24000, 2000, kDense, options);
  CHECK_EQ(without.wrong, 0);
  CHECK(without.eliminated > 1500);
  const Tally with = tally(26000, 2000, kDenseRows, options);
  CHECK_EQ(with.wrong, 0);
  CHECK(with.eliminated > 1000);
}

TEST(graph_solve_searches_where_tables_are_too_wide) {
  Options options;
  options.most_entries = 4;
  int searched = 0;
  for (const int patience : {0, 1, 12}) {
    options.patience = patience;
    CHECK_EQ(tally(30000, 500, kDense, options).wrong, 0);
    Options bare = options;
    bare.most_points = 0;
    const Tally with = tally(32000, 1500, kDenseRows, bare);
    CHECK_EQ(with.wrong, 0);
    CHECK(patience > 0 || with.branched > 100);
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const Problem problem = frustrated_graph(seed, 9, 3);
      const Answer answer = solve(problem, options);
      CHECK(solves(problem, answer));
      searched += answer.nodes > 0;
    }
  }
  CHECK(searched > 120);
}

TEST(graph_solve_branches_where_lists_are_too_long) {
  RandomGraph shape = kDenseRows;
  shape.rows = 3;
  for (const int patience : {0, 1, 12}) {
    Options options;
    options.patience = patience;
    options.most_points = 2;
    CHECK_EQ(tally(40000, 1000, shape, options).wrong, 0);
    options.most_points = 0;
    const Tally of = tally(40000, 1000, shape, options);
    CHECK_EQ(of.wrong, 0);
    CHECK(patience > 0 || of.branched > 100);
  }
}

TEST(graph_solve_proves_frustrated_problems) {
  const RandomGraph shape{.least_nodes = 9, .nodes = 9, .labels = 3, .edges = 9, .forbidden = 0};
  Options narrow;
  narrow.most_entries = 9;
  narrow.patience = 4;
  CHECK_EQ(tally(50000, 150, shape, {}).wrong, 0);
  CHECK_EQ(tally(50000, 150, shape, narrow).wrong, 0);
}

TEST(graph_solve_needs_no_wide_tables) {
  // Exact elimination takes tables of 4^9 and of 4^6.
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (const Problem& problem :
         {frustrated_graph(seed, 9, 4), frustrated_graph(seed, 36, 4, 6)}) {
      const Answer wide = solve(problem);
      for (const double entries : {1, 64, 256}) {
        Options options;
        options.most_entries = entries;
        const Answer narrow = solve(problem, options);
        CHECK(narrow.proved);
        CHECK_EQ(narrow.objective, wide.objective);
      }
    }
  }
}

TEST(graph_solve_ends_where_prices_are_as_small_as_numbers_are) {
  // The first step of a cutoff is less than what tells two of them apart.
  Options options;
  options.most_entries = 4;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Problem large = frustrated_graph(seed, 9, 3);
    auto unaries = large.unaries;
    auto tables = large.tables;
    const auto shrink = [](std::vector<double>& prices) {
      for (double& price : prices) price = price < 500 ? 0 : 5e-324;
    };
    for (auto& unary : unaries) shrink(unary);
    for (Table& table : tables) shrink(table.prices);
    const Answer answer = solve(Problem(unaries, tables, large.edges, {}, {}, {}), options);
    CHECK(answer.proved);
  }
}

TEST(graph_solve_says_honestly_what_little_time_gave) {
  Options options;
  for (int seed = 0; seed < 300; ++seed) {
    const Problem problem = random_graph(60000 + static_cast<std::uint64_t>(seed), kDenseRows);
    const auto least = least_objective(problem);
    int calls = 0;
    // The clock is not to be relied on in a test: the limit is in the past from the start.
    options.time_limit = 0;
    options.progress = [&](double, std::int64_t, double, double) { ++calls; };
    const Answer answer = solve(problem, options);
    CHECK(calls <= 1);
    CHECK(!least || answer.lower_bound <= *least + 1e-9 * std::max(1.0, std::abs(*least)));
    CHECK(answer.lower_bound > -kInfinity);
    CHECK(answer.labels.empty() || problem.allows(answer.labels));
    CHECK(answer.proved || answer.status == Answer::Status::kFeasible ||
          answer.status == Answer::Status::kUnknown);
  }
}

TEST(graph_solve_tells_tiny_prices_apart) {
  // All differences are far below 1: the answer is right by their own measure.
  const RandomGraph shape{.rows = 0, .edges = 3, .forbidden = 0.05};
  for (std::uint64_t seed = 95000; seed < 95300; ++seed) {
    const Problem large = random_graph(seed, shape);
    auto unaries = large.unaries;
    auto tables = large.tables;
    for (auto& unary : unaries) {
      for (double& price : unary) price *= 0x1p-40;
    }
    for (Table& table : tables) {
      for (double& price : table.prices) price *= 0x1p-40;
    }
    const Problem tiny(unaries, tables, large.edges, large.classes, large.groups, large.rows);
    const auto least = least_objective(tiny);
    const Answer answer = solve(tiny);
    CHECK(answer.proved);
    CHECK_EQ(answer.labels.empty() && tiny.nodes() > 0, !least);
    if (least) CHECK(answer.objective - *least <= 1e-8 * 0x1p-40);
  }
}
