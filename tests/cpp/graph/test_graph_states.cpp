// Slacks, lists of states and the elimination within a gap; test_graph_solve.cpp tests the whole.
#include <algorithm>
#include <cmath>

#include "check.h"
#include "graph/bounds/multipliers.h"
#include "graph/bounds/slacks.h"
#include "graph/search/eliminate_within_gap.h"
#include "graph/search/polish.h"
#include "graph/search/states.h"
#include "random_graph.h"

using namespace shardprop::graph;

namespace {

// A model with some passes behind it, under multipliers that are not 0.
struct Passed {
  Multipliers multipliers;
  MessagePassing passing;
  EliminationOrder order;
  bool open = true;

  Passed(const Model& model, int passes) : passing(model) {
    for (std::size_t s = 0; s < model.sides.size(); ++s) {
      multipliers.push_back(0.5 * static_cast<double>(s + 1));
    }
    set_multipliers(model, multipliers, passing);
    for (int i = 0; i < passes && open; ++i) {
      open = passing.pass_ahead(kNever) && passing.pass_back(kInfinity, kNever) < kInfinity;
    }
    order = order_for_lists(model, passing.prices);
  }
};

template <typename Visit>
void every_choice(const std::vector<std::vector<int>>& live, const Visit& visit) {
  std::vector<std::size_t> index(live.size(), 0);
  while (true) {
    visit(index);
    std::size_t d = 0;
    while (d < index.size() && ++index[d] == live[d].size()) index[d++] = 0;
    if (d == index.size()) return;
  }
}

double sum_of(const Slacks& of, const std::vector<std::vector<int>>& live,
              const std::vector<std::size_t>& index) {
  double sum = of.constant;
  for (std::size_t v = 0; v < index.size(); ++v) sum += of.own[v][index[v]];
  for (const auto& pair : of.pairs) {
    sum += pair.prices[index[at(pair.u)] * live[at(pair.v)].size() + index[at(pair.v)]];
  }
  return sum;
}

}  // namespace

TEST(graph_slacks_sum_to_the_cost_and_none_is_below_zero) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Problem problem = random_graph(110000 + seed, {.edges = 3, .forbidden = 0.05});
    const auto model = model_of(problem);
    if (!model) continue;
    for (const int passes : {0, 1, 3}) {
      const Passed passed(*model, passes);
      if (!passed.open) continue;
      const auto& live = passed.order.live;
      const Slacks of = slacks(*model, passed.passing, live);
      if (of.constant == kInfinity) continue;
      for (const auto& own : of.own) CHECK(*std::min_element(own.begin(), own.end()) >= 0);
      for (const auto& pair : of.pairs) {
        CHECK(*std::min_element(pair.prices.begin(), pair.prices.end()) >= 0);
      }
      every_choice(live, [&](const std::vector<std::size_t>& index) {
        std::vector<int> chosen;
        for (std::size_t v = 0; v < index.size(); ++v) chosen.push_back(live[v][index[v]]);
        double cost = model->cost(chosen);
        for (std::size_t s = 0; s < model->sides.size(); ++s) {
          cost += passed.multipliers[s] * overdraft(model->sides[s], chosen);
        }
        const double sum = sum_of(of, live, index);
        CHECK_EQ(sum == kInfinity, cost == kInfinity);
        if (cost < kInfinity) CHECK(std::abs(sum - cost) < 1e-9 * std::max(1.0, std::abs(cost)));
        ++compared;
      });
    }
  }
  CHECK(compared > 10000);
}

TEST(graph_elimination_within_a_gap_finds_what_is_below_the_cutoff) {
  int found = 0, none = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const Problem problem = random_graph(120000 + seed, {.edges = 3, .forbidden = 0.05});
    const auto model = model_of(problem);
    const auto least = least_objective(problem);
    if (!model || !least) continue;
    for (const int passes : {0, 3}) {
      const Passed passed(*model, passes);
      for (const double beyond : {-0.5, 1e-6, 3.0, kInfinity}) {
        const auto answer = eliminate_within_gap(
            *model, passed.passing, passed.multipliers, passed.order, *least + beyond,
            std::size_t{1} << 20, std::size_t{1} << 40, kNever);
        if (beyond < 0) {
          // A dearer answer is welcome too, as long as it is one.
          const bool solved = answer.outcome == Elimination::Outcome::kSolved;
          CHECK(solved || answer.outcome == Elimination::Outcome::kNoAnswer);
          if (solved) CHECK(model->cost(answer.chosen) > *least - 1e-9);
          if (solved) CHECK_EQ(excess(*model, answer.chosen), 0.0);
          none += !solved;
        } else {
          CHECK(answer.outcome == Elimination::Outcome::kSolved);
          CHECK(std::abs(model->cost(answer.chosen) - *least) < 1e-9 * std::max(1.0, *least));
          CHECK_EQ(excess(*model, answer.chosen), 0.0);
          ++found;
        }
      }
    }
  }
  CHECK(found > 1000);
  CHECK(none > 100);
}

TEST(graph_states_keep_what_nothing_beats) {
  Meter meter(kNever);
  const Limits limits{kInfinity, {0.5}, {10.0}, 100, 100, {2, 2}};
  // Prices are slacks less half the amounts: 3, 1, 2, 3 and 2.
  States states{{0, 1}, {0, 0, 0, 0, 1, 0, 1, 0, 0, 1}, {5, 5.5, 6.5, 5, 6.5}, {4, 9, 9, 4, 9}, {},
                {}};
  CHECK(leave_best(states, {1}, limits, meter) == Joined::kDone);
  // Of variable 1's label 0: beaten are 2 by 1, and 3, which equals 0 and comes later.
  CHECK_EQ(states.slacks, (std::vector<double>{5.5, 5, 6.5}));
  CHECK_EQ(states.amounts, (std::vector<double>{9, 4, 9}));
}

TEST(graph_states_are_not_compared_for_ever) {
  Meter meter(kNever);
  const Limits limits{kInfinity, {0.5, 0.5}, {10.0, 10.0}, 100, 3, {4}};
  // None beats another: the third and the fourth would be compared with all before them.
  const States states{{0}, {0, 1, 2, 3}, {1, 2, 3, 4}, {4, 0, 3, 1, 2, 2, 1, 3}, {}, {}};
  States few{{0}, {0, 1}, {1, 2}, {4, 0, 3, 1}, {}, {}};
  States all = states;
  CHECK(leave_best(few, {}, limits, meter) == Joined::kDone);
  CHECK_EQ(few.size(), std::size_t{2});
  CHECK(leave_best(all, {}, limits, meter) == Joined::kTooMany);
}

TEST(graph_states_join_where_they_agree_and_fit) {
  Meter meter(kNever);
  Limits limits{4.0, {0.0}, {10.0}, 100, 100, {2, 2, 2}};
  const States left{{0, 1}, {0, 0, 1, 1}, {1, 2}, {6, 3}, {}, {}};
  const States right{{1, 2}, {0, 0, 0, 1, 1, 0, 1, 1}, {1, 1, 1, 2.5}, {4, 5, 5, 0}, {}, {}};
  States now = left;
  CHECK(join(now, right, 7, limits, meter) == Joined::kDone);
  // 6 + 5 is over the budget and 2 + 2.5 beyond the gap.
  CHECK_EQ(now.scope, (std::vector<int>{0, 1, 2}));
  CHECK_EQ(now.labels, (std::vector<std::int32_t>{0, 0, 0, 1, 1, 0}));
  CHECK_EQ(now.slacks, (std::vector<double>{2, 3}));
  CHECK_EQ(now.amounts, (std::vector<double>{10, 8}));
  CHECK_EQ(now.sources, std::vector<int>{7});
  CHECK_EQ(now.origins, (std::vector<std::size_t>{0, 2}));
  limits.most = 1;
  now = left;
  CHECK(join(now, right, 7, limits, meter) == Joined::kTooMany);
}
