#include <cstdlib>

#include "check.h"
#include "random_problem.h"
#include "search/enumerate.h"
#include "search/search.h"

namespace shardprop::testing {

Placement RandomProblem::placement(int tensor_dims, bool strided) {
  const int kind = pick(0, strided ? 9 : 8);
  if (kind <= 2) return replicate();
  if (kind <= 6 && tensor_dims > 0) return shard(pick(0, tensor_dims - 1));
  if (kind == 7) return partial(kSum);
  if (kind == 8) return partial(static_cast<std::uint16_t>(pick(kSum, kMin)));
  return tensor_dims > 0 ? strided_shard(pick(0, tensor_dims - 1), 2) : replicate();
}

Operand RandomProblem::operand(const Mesh& mesh, bool strided) {
  static constexpr int kSizes[] = {0, 1, 2, 3, 4, 6, 8, 16, 64, 1024};
  Operand operand;
  const int dims = pick(0, 3);
  for (int d = 0; d < dims; ++d) operand.info.shape.push_back(kSizes[pick(chance(10) ? 0 : 3, 9)]);
  operand.info.itemsize = chance(50) ? 4 : 2;
  std::vector<Placement> placements;
  for (int m = 0; m < mesh.ndim; ++m) placements.push_back(placement(dims, strided && chance(30)));
  operand.layout = default_layout(placements);
  if (has_strided(operand.layout) && chance(60)) operand.layout = unordered_layout(placements);
  return operand;
}

Problem RandomProblem::next() {
  static constexpr std::int64_t kSizes[] = {1, 2, 3, 4, 8};
  Problem problem;
  std::vector<std::int64_t> sizes(chance(5) ? 4 : pick(1, 3));
  for (auto& size : sizes) size = kSizes[pick(0, 4)];
  problem.mesh = ring_mesh(sizes, chance(50) ? 1 : 8);
  problem.member = !chance(3);
  const bool strided = chance(25);
  const int operands = pick(1, 3);
  for (int i = 0; i < operands; ++i) {
    problem.operands.push_back(i > 0 && chance(25) ? problem.operands.back()
                                                   : operand(problem.mesh, strided));
    problem.operands.back().planner = i;
    if (chance(2)) problem.operands.back().where = Operand::Where::kForeign;
  }
  problem.positional = chance(90) ? operands : operands - 1;
  problem.table = {pick(0, 2), operands, {}};
  const int rows = pick(0, sizes.size() > 3 ? 4 : 7);
  for (int r = 0; r < rows; ++r) {
    for (int p = 0; p < problem.table.width(); ++p) {
      const int i = p < problem.table.outputs ? 0 : p - problem.table.outputs;
      const int dims = static_cast<int>(problem.operands[i].info.shape.size());
      problem.table.cells.push_back(placement(dims, strided));
    }
  }
  problem.table = with_replicate_row(problem.table, {}, false);
  problem.in_place = chance(10);
  problem.allow_uneven = chance(30);
  problem.prefers_no_redistribute = chance(80);
  problem.strided_is_order = chance(50);
  problem.dialect.compensated_sum = chance(50);
  if (chance(10)) problem.accepts = [](const Rows& s) { return (s[0] + s[1]) % 3 != 0; };
  return problem;
}

Problem RandomProblem::next_that_asks() {
  Problem problem = next();
  RowTable& table = problem.table;
  for (int p = 0; p < table.outputs; ++p) {
    problem.output_shapes.push_back(problem.operands[0].info.shape);
  }
  for (int cell = 0; cell < static_cast<int>(table.cells.size()); ++cell) {
    if (!table.cells[cell].is_shard_like() || !chance(40)) continue;
    table.constraints.set(cell,
                          {chance(40), chance(40) ? pick(2, 8) : 1, chance(40) ? pick(2, 4) : 1});
  }
  return problem;
}

}  // namespace shardprop::testing

using namespace shardprop;

namespace {

constexpr std::uint64_t kOpHashes[] = {11, 22, 33, 44, 55, 66, 77, 88};

using Maker = Problem (testing::RandomProblem::*)();

int compare(std::uint64_t seed, int cases, bool (*wanted)(const Problem&),
            Maker make = &testing::RandomProblem::next) {
  testing::RandomProblem random(seed);
  int compared = 0;
  while (compared < cases) {
    Problem problem = (random.*make)();
    problem.op_hashes = kOpHashes;
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
            &testing::RandomProblem::next_that_asks) > 0);
  CHECK(compare(
            5, 4000,
            [](const Problem& p) { return !p.table.constraints.empty() && !is_searched(p); },
            &testing::RandomProblem::next_that_asks) > 0);
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
