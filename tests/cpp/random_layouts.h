// Random meshes, cost models and layouts for differential tests of the planner.
#pragma once

#include <random>

#include "optimal/cost_model.h"
#include "torch_plan/redistribute.h"

namespace shardprop::testing {

// Mesh dims alone and, with `flattened` percent of chance each, groups of several.
[[nodiscard]] CostModel random_model(std::mt19937_64& random, std::vector<std::int64_t> sizes,
                                     int flattened);
// Placements among Replicate, Partial of `op` and shards, in any shard order.
[[nodiscard]] Layout random_layout(std::mt19937_64& random, int mesh_dims, int tensor_dims,
                                   ReduceOp op);

}  // namespace shardprop::testing
