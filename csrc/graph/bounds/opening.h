// What can be said of a model before any message is passed, in the time it takes to read it: a
// bound, and an answer that mostly keeps all constraints. However short the time, there is this.
#pragma once

#include "graph/interrupt.h"
#include "graph/presolve/model.h"

namespace shardprop::graph {

// The sum of the least prices of all variables and links; +inf if one of them has none.
[[nodiscard]] double least_prices(const Model& model);

// A label per variable: in order, each the one that clashes with the fewest choices before it, and
// of those the cheapest beside them and the least that later neighbours can add. Then a few rounds
// that choose again where a pair is forbidden, unless it is interrupted.
[[nodiscard]] std::vector<int> greedy_choice(const Model& model, const Interrupt& interrupt);

}  // namespace shardprop::graph
