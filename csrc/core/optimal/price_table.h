// The prices between many layouts of one tensor, each the price of the cheapest plan: what
// exact_plan says of every pair, but one search from each source where that takes less time than
// its plans.
#pragma once

#include <vector>

#include "optimal/exact_plan.h"

namespace shardprop {

// Row after row, per target the prices from each source; kNoPrice where there is no plan.
// `memory_limit` and `cache` as for exact_plan. Throws OutsidePlanSpace, CostError.
[[nodiscard]] std::vector<Price> price_table(const CostModel& model, const TensorInfo& info,
                                             std::span<const Layout> sources,
                                             std::span<const Layout> targets, double memory_limit,
                                             BoundCache* cache);

}  // namespace shardprop
