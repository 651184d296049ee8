// The order in which to eliminate the variables of a model that still have a choice.
#pragma once

#include <utility>

#include "graph/interrupt.h"
#include "graph/presolve/model.h"

namespace shardprop::graph {

struct EliminationStep {
  int variable;
  std::vector<int> scope;  // variables its elimination ties together: those eliminated later
};

struct EliminationOrder {
  std::vector<std::vector<int>> live;  // labels left, by variable
  std::vector<EliminationStep> steps;  // variables with more than one label left
  double widest = 1;                   // entries of the largest joint table, own labels included
  double work = 0;                     // entries of all of them
  int width = 0;                       // variables in the largest scope
};

// Greedy by the size of the joint table. `prices` by label: +inf is removed. Gives up, with
// `widest` above it, once a table needs more than `most` entries.
[[nodiscard]] EliminationOrder elimination_order(const Model& model,
                                                 const std::vector<double>& prices, double most);

struct Elimination {
  enum class Outcome { kSolved, kNoAnswer, kTooLarge, kStopped } outcome;
  std::vector<int> chosen;  // a label per variable, where solved
};

// Exact minimum over the labels left, without the model's sides.
[[nodiscard]] Elimination eliminate(const Model& model, const EliminationOrder& order,
                                    const Interrupt& interrupt);

}  // namespace shardprop::graph
