// What presolve leaves: variables with live labels only, and links whose prices are small matrices
// between classes of labels. Labels that look alike on a link share a row or column of its matrix,
// so that a message costs rows times columns, however many labels there are. Matrices are shared by
// links; parallel edges between two variables have become one link.
#pragma once

#include "graph/presolve/clusters.h"

namespace shardprop::graph {

struct Matrix {
  int rows = 0, columns = 0;
  std::vector<double> prices;      // [rows][columns]
  std::vector<double> transposed;  // [columns][rows]

  [[nodiscard]] double at(int r, int c) const {
    return prices[static_cast<std::size_t>(r) * static_cast<std::size_t>(columns) +
                  static_cast<std::size_t>(c)];
  }
};

struct Link {
  int u, v;  // u < v
  int matrix;
  std::vector<std::int32_t> rows, columns;  // by label of u, of v
};

struct Model {
  std::vector<int> first;     // of each variable's labels in arrays over labels; then their number
  std::vector<double> unary;  // by label; +inf only where presolve was interrupted
  std::vector<Matrix> matrices;
  std::vector<Link> links;
  std::vector<std::vector<int>> back, ahead;           // links to earlier and to later variables
  std::vector<Side> sides;                             // terms by variable
  std::vector<std::vector<std::int32_t>> node_labels;  // by node: its label for each label of...
  std::vector<int> variable_of;                        // ...the variable that decides it

  [[nodiscard]] int variables() const { return static_cast<int>(first.size()) - 1; }
  [[nodiscard]] int labels(int v) const {
    return first[static_cast<std::size_t>(v) + 1] - first[static_cast<std::size_t>(v)];
  }
  // The largest price by amount, at most 1: what costs near 0 are measured by.
  [[nodiscard]] double scale() const;
  // Sum of unaries and links at one label per variable.
  [[nodiscard]] double cost(const std::vector<int>& chosen) const;
  // Labels of all nodes of the problem.
  [[nodiscard]] std::vector<std::int32_t> expand(const std::vector<int>& chosen) const;
};

// `clusters` has been reduced without finding a contradiction; `sides` are its sides. `interrupt`
// is asked so that it may throw; without a model there would be no answer at all, so time does not
// end this.
[[nodiscard]] Model build_model(const Problem& problem, const Clusters& clusters,
                                std::vector<Side> sides, const Interrupt& interrupt);

}  // namespace shardprop::graph
