// Local improvement of an answer, one variable at a time.
#pragma once

#include "graph/interrupt.h"
#include "graph/presolve/model.h"

namespace shardprop::graph {

// How far `chosen` exceeds the budgets of the model's sides, summed; 0 if it keeps them all.
[[nodiscard]] double excess(const Model& model, const std::vector<int>& chosen);

// Improves `chosen` in place until no single change does. Changes never add to the excess, and
// those that lower it come before cheaper prices. `chosen` may break forbidden pairs at the start.
// Returns the cost; +inf if forbidden pairs or excess remain. Ends early where it is interrupted.
[[nodiscard]] double polish(const Model& model, std::vector<int>& chosen,
                            const Interrupt& interrupt);

}  // namespace shardprop::graph
