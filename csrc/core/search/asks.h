// What the rows of a strategy ask of the shards that it makes (rule/ask.h).
#pragma once

#include <cstdint>
#include <span>

#include "search/problem.h"

namespace shardprop {

// Does all that the rows ask of outputs and operands hold for the strategy?
[[nodiscard]] bool asks_hold(const Problem& problem,
                             std::span<const std::uint16_t> rows);  // one per mesh dim

}  // namespace shardprop
