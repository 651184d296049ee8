// The solver's parts alone; test_graph_solve.cpp tests them together.
#include <algorithm>
#include <cmath>

#include "check.h"
#include "graph/bounds/min_plus.h"
#include "graph/bounds/multipliers.h"
#include "graph/bounds/opening.h"
#include "graph/search/elimination_order.h"
#include "graph/search/polish.h"
#include "random_graph.h"

using namespace shardprop::graph;

namespace {

Problem two_nodes(Table table, std::vector<Row> rows = {}) {
  const auto labels = [](int count) {
    std::vector<double> prices;
    for (int l = 0; l < count; ++l) prices.push_back(l);
    return prices;
  };
  std::vector<std::vector<double>> unaries{labels(table.rows), labels(table.columns)};
  return Problem(std::move(unaries), {std::move(table)}, {{0, 1, 0, -1, -1}}, {}, {},
                 std::move(rows));
}

}  // namespace

TEST(graph_pairs_become_one_variable) {
  const auto model = model_of(two_nodes({2, 2, {kInfinity, 3, 1, kInfinity}}));
  CHECK_EQ(model->variables(), 1);
  CHECK_EQ(model->expand({0}), (std::vector<std::int32_t>{1, 0}));  // 1 + 0 + 1 < 0 + 1 + 3
}

TEST(graph_labels_without_a_partner_die) {
  const Problem problem = two_nodes({2, 2, {kInfinity, kInfinity, 1, 2}});
  Clusters clusters(problem);
  CHECK(clusters.reduce(kNever));
  CHECK_EQ(clusters.live(0), (std::vector<std::uint8_t>{0, 1}));
}

TEST(graph_contradiction_is_found_by_consistency) {
  CHECK(!model_of(two_nodes({1, 2, {kInfinity, kInfinity}})));
}

TEST(graph_equal_rows_of_a_table_become_one_label) {
  // Labels 0 and 1 of the first node look alike and 0 is cheaper.
  const auto model = model_of(two_nodes({3, 2, {1, 5, 1, 5, 7, 0}}));
  CHECK_EQ(model->labels(0), 2);
  CHECK_EQ(model->matrices[0].rows, 2);
}

TEST(graph_row_at_its_least_fixes_labels) {
  const Row row{-kInfinity, 0.3, {0, 0, 1, 1}, {0, 1, 0, 1}, {0.2, 0.1, 0.2, 0.5}};
  const auto model = model_of(two_nodes({2, 2, {1, 2, 2, 1}}, {row}));
  CHECK_EQ(model->expand({0, 0}), (std::vector<std::int32_t>{1, 0}));
  CHECK(model->sides.empty());
}

TEST(graph_row_that_cannot_bind_is_dropped) {
  const Row row{-kInfinity, 2, {0, 1}, {0, 0}, {1, 1}};
  CHECK(model_of(two_nodes({2, 2, {1, 2, 2, 1}}, {row}))->sides.empty());
}

TEST(graph_row_out_of_reach_is_refused) {
  const Row row{3, kInfinity, {0, 1}, {0, 0}, {1, 1}};
  CHECK(!model_of(two_nodes({2, 2, {1, 2, 2, 1}}, {row})));
}

TEST(graph_min_plus_is_the_least_sum) {
  const std::vector<double> matrix{1, 9, 4, 2, 0, 7, 5, 5, 5};
  double out[3];
  min_plus({0, 2, kInfinity}, matrix.data(), 3, 3, out);
  CHECK_EQ(std::vector<double>(out, out + 3), (std::vector<double>{1, 2, 4}));
  min_plus({1, 1, 1}, matrix.data(), 3, 3, out);
  CHECK_EQ(std::vector<double>(out, out + 3), (std::vector<double>{2, 1, 5}));
}

TEST(graph_bound_of_messages_never_exceeds_the_least_nor_falls) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Problem problem = random_graph(70000 + seed, {.rows = 0, .edges = 4, .forbidden = 0.05});
    const auto model = model_of(problem);
    const auto least = least_objective(problem);
    if (!model || !least) continue;
    MessagePassing passing(*model);
    double last = -kInfinity;
    for (int i = 0; i < 10; ++i) {
      CHECK(passing.pass_ahead(kNever));
      const double bound = passing.pass_back(kInfinity, kNever);
      CHECK(bound >= last - 1e-9);
      CHECK(bound <= *least + 1e-9);
      last = bound;
    }
  }
}

TEST(graph_removal_keeps_every_answer_below_the_cutoff) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Problem problem = random_graph(80000 + seed, {.rows = 0, .edges = 4, .forbidden = 0.05});
    const auto model = model_of(problem);
    const auto least = least_objective(problem);
    if (!model || !least) continue;
    MessagePassing passing(*model);
    for (int i = 0; i < 5; ++i) {
      CHECK(passing.pass_ahead(kNever));
      CHECK(passing.pass_back(*least + 1e-6, kNever) < kInfinity);
    }
    const auto order = elimination_order(*model, passing.prices, 1e6);
    const auto answer = eliminate(*model, order, kNever);
    CHECK(answer.outcome == Elimination::Outcome::kSolved);
    CHECK(std::abs(model->cost(answer.chosen) - *least) < 1e-9);
  }
}

TEST(graph_opening_bounds_every_answer_and_mostly_has_one) {
  int problems = 0, answers = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Problem problem = random_graph(90000 + seed, {.rows = 0, .edges = 3, .forbidden = 0.1});
    const auto model = model_of(problem);
    const auto least = least_objective(problem);
    if (!model || !least) continue;
    ++problems;
    CHECK(least_prices(*model) <= *least + 1e-9);
    const double cost = model->cost(greedy_choice(*model, kNever));
    CHECK(cost >= *least - 1e-9);
    answers += cost < kInfinity;
  }
  CHECK(problems > 100);
  CHECK(answers > problems * 9 / 10);
}

TEST(graph_interrupted_parts_leave_what_holds) {
  const Interrupt always = [] { return true; };
  const int rows = 1 << 10, columns = 1 << 11;
  std::vector<double> prices;  // all rows and columns differ, so that nothing is compressed
  for (int i = 0; i < rows * columns; ++i) prices.push_back(i * (i % 7 + 1));
  const Problem problem = two_nodes({rows, columns, std::move(prices)});
  Clusters clusters(problem);
  CHECK(clusters.reduce(always));
  const Model model = build_model(problem, clusters, {}, always);
  MessagePassing passing(model);
  CHECK_EQ(passing.pass_back(kInfinity, always), -kInfinity);
}

TEST(graph_polish_repairs_an_overdraft_and_lowers_the_cost) {
  const Row row{-kInfinity, 1, {0, 1}, {0, 0}, {1, 1}};
  const auto model = model_of(two_nodes({2, 2, {0, 2, 2, 3}}, {row}));
  std::vector<int> chosen{0, 0};
  CHECK(excess(*model, chosen) > 0);
  CHECK_EQ(polish(*model, chosen, kNever), 3.0);  // one node leaves label 0: 1 + 2
  CHECK_EQ(excess(*model, chosen), 0.0);
}
