#include "search/constraints.h"

#include <array>

namespace shardprop {
namespace {

std::int64_t size_at(const Problem& problem, int position, int tensor_dim) {
  const int outputs = problem.table.outputs;
  const auto& shape = position < outputs ? problem.output_shapes[position]
                                         : problem.operands[position - outputs].info.shape;
  return shape[tensor_dim];
}

bool cut_in_order(const Problem& problem, int position) {
  if (position < problem.table.outputs) return true;
  const Layout& layout = problem.operands[position - problem.table.outputs].layout;
  return !layout.ordered || has_default_order(layout);
}

bool constraint_holds(const Problem& problem, std::span<const std::uint16_t> rows, int position,
                      const Constraint& constraint, int tensor_dim) {
  std::array<Cut, kMaxMeshDims> cuts;
  std::size_t count = 0;
  for (int m = 0; m < problem.mesh.ndim; ++m) {
    const Placement cell = problem.table.at(rows[m], position);
    if (!cell.is_shard_like() || cell.dim != tensor_dim) continue;
    cuts[count++] = {problem.mesh.size[m], cell.is_strided() ? std::int64_t{cell.value} : 1};
  }
  return holds(constraint, size_at(problem, position, tensor_dim), {cuts.data(), count},
               cut_in_order(problem, position));
}

}  // namespace

bool constraints_hold(const Problem& problem, std::span<const std::uint16_t> rows) {
  const RowTable& table = problem.table;
  if (table.constraints.empty()) return true;
  for (int m = 0; m < problem.mesh.ndim; ++m) {
    for (int p = 0; p < table.width(); ++p) {
      const Constraint* constraint = table.constraints.of(rows[m] * table.width() + p);
      if (constraint == nullptr) continue;
      if (!constraint_holds(problem, rows, p, *constraint, table.at(rows[m], p).dim)) return false;
    }
  }
  return true;
}

}  // namespace shardprop
