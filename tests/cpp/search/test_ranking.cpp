// The ranking against the enumeration: the same first, the rest in order, every combination of rows
// accounted for.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "check.h"
#include "random_problem.h"
#include "search/ranking.h"

using namespace shardprop;

namespace {

bool is_decided_alike(const Ranking& ranking, const Decision& decision) {
  if (ranking.verdict != decision.verdict) return false;
  if (decision.verdict != Verdict::kFound) return ranking.best.empty() || ranking.valid > 0;
  const Strategy& first = ranking.best.front();
  return first.rows == decision.rows && first.cost == decision.cost &&
         first.operand_costs == decision.operand_costs;
}

std::vector<Strategy> by_cost(const Problem& problem) {
  std::vector<Strategy> all;
  static_cast<void>(for_each_strategy(problem, [&](const Strategy& s) { all.push_back(s); }));
  std::stable_sort(all.begin(), all.end(),
                   [](const Strategy& a, const Strategy& b) { return a.cost < b.cost; });
  return all;
}

// The ranking but for its first is the sorted enumeration without that one.
bool is_in_order(const Ranking& ranking, std::vector<Strategy> sorted, std::size_t limit) {
  const Rows first = ranking.best.front().rows;
  sorted.erase(std::find_if(sorted.begin(), sorted.end(),
                            [&](const Strategy& s) { return s.rows == first; }));
  if (ranking.best.size() != std::min(limit, sorted.size() + 1)) return false;
  return std::equal(
      ranking.best.begin() + 1, ranking.best.end(), sorted.begin(),
      [](const Strategy& a, const Strategy& b) { return a.rows == b.rows && a.cost == b.cost; });
}

std::uint64_t dropped(const Ranking& ranking) {
  return std::accumulate(ranking.refused.begin(), ranking.refused.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Refused& r) { return sum + r.dropped; });
}

}  // namespace

TEST(ranking_begins_with_the_decision_and_goes_on_by_cost) {
  for (const bool asks : {false, true}) {
    testing::RandomProblem random(asks ? 7 : 5);
    int found = 0;
    for (int i = 0; i < 3000; ++i) {
      Problem problem = asks ? random.next_with_constraints() : random.next();
      problem.op_hashes = testing::kOpHashes;
      constexpr std::size_t kLimit = 6;
      const Ranking ranking = rank(problem, kLimit);
      CHECK(is_decided_alike(ranking, decide_by_enumeration(problem)));
      if (ranking.verdict == Verdict::kUnreachable) continue;
      CHECK(dropped(ranking) + ranking.valid + ranking.turned_down == ranking.considered);
      if (ranking.verdict != Verdict::kFound) continue;
      ++found;
      const std::vector<Strategy> sorted = by_cost(problem);
      CHECK(ranking.valid == sorted.size());
      CHECK(is_in_order(ranking, sorted, kLimit));
      const auto cheapest = std::count_if(sorted.begin(), sorted.end(), [&](const Strategy& s) {
        return s.cost == sorted.front().cost;
      });
      CHECK(ranking.ties == static_cast<std::uint64_t>(cheapest));
    }
    CHECK(found > 1000);
  }
}

TEST(ranking_names_the_filter_and_the_cell_that_a_row_falls_by) {
  // x of 3 elements on 4 ranks; an op in place on it.
  Problem problem;
  problem.mesh = ring_mesh(std::vector<std::int64_t>{4}, 1);
  Operand x;
  x.info.shape = {3};
  x.layout = default_layout(std::vector<Placement>{replicate()});
  problem.operands = {x};
  problem.positional = 1;
  problem.table = {1, 1, {replicate(), replicate(), shard(0), shard(0)}};
  const Ranking too_small = rank(problem, 2);
  CHECK(too_small.verdict == Verdict::kFound && too_small.valid == 1);
  CHECK(too_small.refused.size() == 1);
  CHECK(too_small.refused[0].row == 1 && too_small.refused[0].refusal.position == 1);
  CHECK(too_small.refused[0].refusal.reason == Filter::Reason::kTooSmall);
  problem.in_place = true;
  const Ranking in_place = rank(problem, 2);
  CHECK(in_place.refused[0].refusal.reason == Filter::Reason::kInPlace);
}

TEST(ranking_gives_up_on_too_many_combinations) {
  Problem problem;
  problem.mesh = ring_mesh(std::vector<std::int64_t>(8, 2), 1);
  problem.table = {0, 0, {}};
  Operand x;
  x.info.shape = {1024};
  x.layout = default_layout(std::vector<Placement>(8, replicate()));
  problem.operands = {x};
  problem.table = {0, 1, std::vector<Placement>(10, shard(0))};
  const Ranking ranking = rank(problem, 2);
  CHECK(ranking.verdict == Verdict::kTooLarge && ranking.best.empty());
}
