// Permutations of whole shards between the ranks of one group: which layouts one gives from
// another.
#pragma once

#include <functional>

#include "plan_space.h"

namespace shardprop {

// Calls `visit(after)` for each layout that differs from `view` only on the mesh dims of `mask` and
// gives each rank of the group a block that some rank of it has: per tensor dim, the other mesh
// dims that cut it stay where they are, and what lies between them cuts into as many pieces as
// before. Only tensor dims that are cut evenly change. No mesh dim of `mask` may be partial, opaque
// or a strided shard. `after` has codes and cuts; sizes and bytes are those of `view`.
void for_each_permutation(const PlanSpace& space, const PlanSpace::View& view, unsigned mask,
                          const std::function<void(const PlanSpace::View&)>& visit);

}  // namespace shardprop
