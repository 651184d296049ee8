// Tables over several variables' live labels, and walking them together.
#pragma once

#include "graph/search/elimination_order.h"

namespace shardprop::graph {

// Where the entry of an assignment lies: sum over the scope of stride times live index.
struct Shape {
  std::vector<int> scope;
  std::vector<std::size_t> strides;
  std::size_t size = 1;

  Shape() = default;
  Shape(std::vector<int> scope_in, const EliminationOrder& order);
  // Of variable v; 0 if it is not in the scope.
  [[nodiscard]] std::size_t stride(int v) const;
  // `live`: the live index of each variable.
  [[nodiscard]] std::size_t entry(const std::vector<std::size_t>& live) const;
};

// Counts through all assignments of a scope and keeps, for each shape, the offset of its entry.
class Odometer {
 public:
  Odometer(const std::vector<int>& scope, const EliminationOrder& order,
           const std::vector<const Shape*>& shapes);
  [[nodiscard]] std::size_t offset(std::size_t shape) const { return offsets_[shape]; }
  void next();

 private:
  std::vector<std::size_t> digits_, sizes_;
  std::vector<std::vector<std::size_t>> strides_;  // by digit, by shape
  std::vector<std::size_t> offsets_;
};

// Prices of links as tables over live labels, with each variable's fixed neighbours and own prices
// in its unary.
struct PairTable {
  Shape shape;  // of two variables
  std::vector<double> prices;
};

struct StartingTables {
  double constant = 0;                     // of variables without a choice, and links among them
  std::vector<std::vector<double>> unary;  // by variable, by live index
  std::vector<PairTable> pairs;
};

[[nodiscard]] StartingTables starting_tables(const Model& model, const EliminationOrder& order);

}  // namespace shardprop::graph
