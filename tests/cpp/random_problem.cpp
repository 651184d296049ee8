#include "random_problem.h"

namespace shardprop::testing {

Problem gather_one(std::int64_t tokens) {
  Problem problem;
  const std::vector<std::int64_t> sizes{8};
  problem.mesh = ring_mesh(sizes, 8);
  problem.table = with_replicate_row({1,
                                      2,
                                      {shard(0), shard(0), replicate(),  //
                                       shard(1), replicate(), shard(1)}},
                                     {}, false);
  for (int i = 0; i < 2; ++i) {
    Operand operand;
    operand.info = {{i == 0 ? tokens : 1024, 1024}, 4};
    operand.layout = default_layout(std::vector<Placement>{shard(i)});
    problem.operands.push_back(operand);
  }
  problem.positional = 2;
  return problem;
}

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

Problem RandomProblem::next_with_constraints() {
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
