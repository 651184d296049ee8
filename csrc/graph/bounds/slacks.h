// A model's prices after messages: a bound, and what each label and pair adds to it.
//
//   cost(x) + sum_s multiplier_s * (amount_s(x) - budget_s) = constant + sum_v own + sum_e pair
//
// where no own and no pair is below 0. So an answer that costs less than some cutoff has no terms,
// and no sum of some of them, above cutoff - constant, as long as it keeps the budgets.
#pragma once

#include "graph/bounds/message_passing.h"

namespace shardprop::graph {

struct Slacks {
  struct Pair {
    int u, v;
    std::vector<double> prices;  // [live of u][live of v]; +inf: forbidden
  };
  double constant = 0;                   // +inf: nothing is left
  std::vector<std::vector<double>> own;  // by variable, by live index
  std::vector<Pair> pairs;  // of links whose ends both have a choice; the others' are in `own`
};

// How many prices of pairs there will be, over all links.
[[nodiscard]] std::size_t pairs_of_labels(const Model& model,
                                          const std::vector<std::vector<int>>& live);

// Over the labels of `live`, by variable: those left in `passing`.
[[nodiscard]] Slacks slacks(const Model& model, const MessagePassing& passing,
                            const std::vector<std::vector<int>>& live);

}  // namespace shardprop::graph
