// Elimination of what an answer below a cutoff could use: lists of states instead of tables.
//
// With the slacks of messages every label and pair adds to the bound what it costs beyond the
// least, so a partial assignment whose slacks reach the gap can be part of no better answer. A
// state also carries its amounts, and gives way to one of the same labels that is as good in price
// and every amount: both together decide what any completion of it costs, and whether it fits.
#pragma once

#include "graph/bounds/message_passing.h"
#include "graph/search/elimination_order.h"

namespace shardprop::graph {

// An order whose widest table can be counted, though not made.
[[nodiscard]] EliminationOrder order_for_lists(const Model& model,
                                               const std::vector<double>& prices);

// The least answer that keeps the model's sides and costs less than `cutoff`, over the labels left.
// If there is none: kNoAnswer, or one that costs more but was not ruled out. `multipliers` are
// those that the prices of `passing` have in them. kTooLarge: some list needs more than
// `most_states`, all of them more than four times as many, one more than `most_compared` pairs of
// states compared, or there are too many pairs of labels to begin with.
[[nodiscard]] Elimination eliminate_within_gap(const Model& model, const MessagePassing& passing,
                                               const std::vector<double>& multipliers,
                                               const EliminationOrder& order, double cutoff,
                                               std::size_t most_states, std::size_t most_compared,
                                               const Interrupt& interrupt);

}  // namespace shardprop::graph
