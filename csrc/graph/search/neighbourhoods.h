// Better answers from exact elimination of some variables while all others keep their labels.
#pragma once

#include <random>

#include "graph/search/elimination_order.h"

namespace shardprop::graph {

class Neighbourhoods {
 public:
  // The model must outlive this.
  explicit Neighbourhoods(const Model& model);

  // As many variables as can be eliminated with tables of `most_entries`, those near a random one
  // first. Each has the labels that `prices` (by label; +inf is removed) leaves it, and the one
  // that is chosen; each other variable has that alone.
  [[nodiscard]] EliminationOrder next(const std::vector<int>& chosen,
                                      const std::vector<double>& prices, double most_entries);
  // A choice with a few variables near one another changed at random.
  [[nodiscard]] std::vector<int> changed(std::vector<int> chosen);

 private:
  [[nodiscard]] std::vector<int> from(int v);

  const Model& model_;
  std::vector<std::vector<int>> near_;  // by variable
  std::mt19937 random_;                 // of its own seed: a solve can be repeated
};

}  // namespace shardprop::graph
