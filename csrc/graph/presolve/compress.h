// Making the matrices of a model small: rows and columns that are unused or alike become one, and
// parallel links become one link.
#pragma once

#include <map>

#include "graph/presolve/model.h"

namespace shardprop::graph {

// Which part of a table its edges use, in one direction, and the matrix that is left of it.
class Usage {
 public:
  // `flipped`: rows of the matrix are columns of the table.
  Usage(const Table& table, bool flipped);
  void use(const std::vector<std::int32_t>& rows, const std::vector<std::int32_t>& columns);
  // The used part without repeated rows and columns.
  [[nodiscard]] Matrix compress();
  // From rows and columns of the table to those of the compressed matrix.
  void translate(std::vector<std::int32_t>& rows, std::vector<std::int32_t>& columns) const;

 private:
  const Table& table_;
  bool flipped_;
  std::vector<std::int32_t> row_to_, column_to_;  // kUnused, then kUsed, then the place
};

// Joins parallel links by adding their matrices over pairs of classes. Equal joins share a matrix.
class MatrixJoiner {
 public:
  // Adds `other` to `link`. False if that would take too much memory: both then stay.
  [[nodiscard]] bool join(std::vector<Matrix>& matrices, Link& link, const Link& other);

 private:
  struct Joined {
    int matrix;
    std::vector<std::pair<int, int>> rows, columns;
  };
  std::map<std::pair<int, int>, std::vector<Joined>> made_;
  std::size_t entries_ = 0;
};

// The labels to keep: of those with equal `looks` and `amounts` the first of least price.
[[nodiscard]] std::vector<int> undominated(const double* unary, int labels,
                                           const std::vector<std::vector<std::int32_t>*>& looks,
                                           const std::vector<std::vector<double>*>& amounts);

// list = list[keep]
template <typename T>
void select(std::vector<T>& list, const std::vector<int>& keep) {
  if (keep.size() == list.size()) return;
  for (std::size_t i = 0; i < keep.size(); ++i) list[i] = list[static_cast<std::size_t>(keep[i])];
  list.resize(keep.size());
  list.shrink_to_fit();
}

}  // namespace shardprop::graph
