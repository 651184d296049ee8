// Resource rows as prices: with a multiplier >= 0 per side, every answer that keeps the budgets
// costs at least  cost(x) + sum_s multiplier_s (amount_s(x) - budget_s).  So a bound on these
// prices is one on the problem, whatever the multipliers are.
#pragma once

#include "graph/bounds/message_passing.h"

namespace shardprop::graph {

using Multipliers = std::vector<double>;  // by side of the model

// Gives `passing` the prices of the multipliers; removed labels stay removed.
void set_multipliers(const Model& model, const Multipliers& multipliers, MessagePassing& passing);

// Removes labels that no budget leaves room for beside the least of all others. False: some
// budget cannot be kept at all, or a variable has no label left.
[[nodiscard]] bool leave_room(const Model& model, MessagePassing& passing);

// By how much `chosen` exceeds the budget of one side; negative where there is room.
[[nodiscard]] double overdraft(const Side& side, const std::vector<int>& chosen);

}  // namespace shardprop::graph
