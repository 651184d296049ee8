// torch's test whether a tensor can be cut as a strategy wants it (is_tensor_shardable), as the
// questions it asks of sizes. Three readers answer them in their own way: symbolic decisions ask
// the caller, regions take note of what was asked; `Filter`, which knows only some rows at a time,
// has a form of its own.
#pragma once

#include "search/problem.h"

namespace shardprop {

[[nodiscard]] inline Placement wanted_placement(const Problem& problem, int operand, int mesh_dim,
                                                const Rows& rows) {
  return problem.table.at(rows[mesh_dim], problem.table.outputs + operand);
}

// Does the strategy leave this operand as it is?
[[nodiscard]] inline bool keeps_operand(const Problem& problem, int operand, const Rows& rows) {
  const Layout& held = problem.operands[operand].layout;
  for (int m = 0; m < problem.mesh.ndim; ++m) {
    if (!(wanted_placement(problem, operand, m, rows) == held.placements[m])) return false;
  }
  return true;
}

// Asks `holds(tensor_dim, pieces)`, mesh dim by mesh dim as torch does, up to the first that does
// not: has that tensor dim as many elements as pieces, or more? A strided shard asks for its split
// factor more.
template <class Holds>
[[nodiscard]] bool is_shardable(const Problem& problem, int operand, const Rows& rows,
                                Holds&& holds) {
  const std::size_t tensor_dims = problem.operands[operand].info.shape.size();
  for (int m = 0; m < problem.mesh.ndim; ++m) {
    const Placement p = wanted_placement(problem, operand, m, rows);
    if (!p.is_shard_like()) continue;
    if (p.dim >= tensor_dims) return false;
    std::int64_t pieces = p.is_strided() ? p.value : 1;
    for (int left = 0; left <= m; ++left) {
      const Placement cut = wanted_placement(problem, operand, left, rows);
      if (cut.is_shard_like() && cut.dim == p.dim) pieces *= problem.mesh.size[left];
    }
    if (!holds(p.dim, pieces)) return false;
  }
  return true;
}

}  // namespace shardprop
