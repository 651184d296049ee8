// The cheapest strategy, and among equals the one torch would take, without enumerating the product
// of rows over mesh dims.
//
// Best first over prefixes (rows for the first mesh dims), in order of (bound, row numbers). The
// bound is admissible, so the first complete strategy taken from the queue is the answer: whatever
// is left costs more, or as much and comes later in torch's order.
#pragma once

#include "search/problem.h"

namespace shardprop {

// Partial strategies held at once before the search gives up with Verdict::kTooLarge.
inline constexpr std::size_t kMaxNodes = std::size_t{1} << 22;

// Where prices depend on the history of torch's graph planners, the order in which torch asks for
// them is part of the answer: then this enumerates (see enumerate.h), each price computed once.
[[nodiscard]] Decision decide(const Problem& problem);

}  // namespace shardprop
