#include <cstdlib>

#include "check.h"
#include "random_problem.h"
#include "search/enumerate.h"
#include "search/search.h"

using namespace shardprop;

namespace {

using Maker = Problem (testing::RandomProblem::*)();

int compare(std::uint64_t seed, int cases, bool (*wanted)(const Problem&),
            Maker make = &testing::RandomProblem::next) {
  testing::RandomProblem random(seed);
  int compared = 0;
  while (compared < cases) {
    Problem problem = (random.*make)();
    problem.op_hashes = testing::kOpHashes;
    if (!wanted(problem)) continue;
    ++compared;
    const Decision searched = decide(problem);
    const Decision enumerated = decide_by_enumeration(problem);
    const bool same = searched.verdict == enumerated.verdict &&
                      (searched.verdict != Verdict::kFound ||
                       (searched.rows == enumerated.rows && searched.cost == enumerated.cost &&
                        searched.operand_costs == enumerated.operand_costs));
    if (!same) {
      check::report(false, __FILE__, __LINE__,
                    "search and enumeration differ, seed " + std::to_string(seed) + ", case " +
                        std::to_string(compared));
    }
  }
  return compared;
}

bool is_searched(const Problem& problem) {
  for (const Operand& operand : problem.operands) {
    if (operand.layout.ordered && has_strided(operand.layout)) return false;
  }
  return problem.strided_is_order;
}

}  // namespace

TEST(search_equals_enumeration_on_random_tables) {
  const char* cases = std::getenv("SHARDPROP_SEARCH_CASES");
  CHECK(compare(20261121, cases ? std::atoi(cases) : 100000, is_searched) > 0);
}

TEST(strided_problems_agree_too) {
  CHECK(compare(7, 20000, [](const Problem& p) { return !is_searched(p); }) > 0);
}

TEST(search_equals_enumeration_where_rows_ask_something) {
  CHECK(compare(
            3, 40000,
            [](const Problem& p) { return !p.table.constraints.empty() && is_searched(p); },
            &testing::RandomProblem::next_with_constraints) > 0);
  CHECK(compare(
            5, 4000,
            [](const Problem& p) { return !p.table.constraints.empty() && !is_searched(p); },
            &testing::RandomProblem::next_with_constraints) > 0);
}

TEST(six_mesh_dims_are_searched_not_enumerated) {
  Problem problem;
  const std::vector<std::int64_t> sizes(6, 2);
  problem.mesh = ring_mesh(sizes, 8);
  // mm: "m k, k n -> m n".
  problem.table = with_replicate_row({1,
                                      2,
                                      {partial(kSum), shard(1), shard(0),  //
                                       shard(0), shard(0), replicate(),    //
                                       shard(1), replicate(), shard(1),    //
                                       partial(kSum), partial(kSum), replicate()}},
                                     {}, false);
  for (int i = 0; i < 2; ++i) {
    Operand operand;
    operand.info = {{4096, 4096}, 2};
    std::vector<Placement> placements(6, shard(i));
    placements[2] = partial(kSum);
    operand.layout = default_layout(placements);
    problem.operands.push_back(operand);
  }
  problem.positional = 2;
  const Decision decision = decide(problem);
  CHECK_EQ(decision.verdict, Verdict::kFound);
  CHECK(decision.nodes < 5u * 5 * 5 * 5 * 5 * 5 / 4);
  CHECK_EQ(decision.cost, decide_by_enumeration(problem).cost);
}

TEST(an_in_place_op_that_must_move_is_told_apart) {
  Problem problem;
  const std::vector<std::int64_t> sizes{2};
  problem.mesh = ring_mesh(sizes, 8);
  problem.table = with_replicate_row({1, 1, {}}, {}, false);
  Operand operand;
  operand.info = {{8}, 4};
  const std::vector<Placement> placements{shard(0)};
  operand.layout = default_layout(placements);
  problem.operands = {operand};
  problem.positional = 1;
  problem.in_place = true;
  CHECK_EQ(decide(problem).verdict, Verdict::kNoInPlaceStrategy);
  problem.in_place = false;
  CHECK_EQ(decide(problem).verdict, Verdict::kFound);
}
