// The constraints that rows of a strategy put on the shards that it makes (rule/constraint.h).
#pragma once

#include <cstdint>
#include <span>

#include "search/problem.h"

namespace shardprop {

// Do the constraints of the rows on outputs and operands hold for the strategy?
[[nodiscard]] bool constraints_hold(const Problem& problem,
                                    std::span<const std::uint16_t> rows);  // one per mesh dim

}  // namespace shardprop
