// An assignment problem on a graph as it is stated: one label per node, prices on nodes and edges,
// groups of nodes that choose alike, and linear resource rows. Nothing here is simplified yet.
//
//   minimise  sum_i unary_i[x_i] + sum_e table_e[row_e(x_u), column_e(x_v)]
//   so that   x_i == x_j within each group, and lo <= sum coefficient <= hi for each row
//
// +inf forbids a label or a pair of them.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

namespace shardprop::graph {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The statement is malformed; the message says where.
struct ProblemError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// Row-major prices, shared by any number of edges.
struct Table {
  int rows = 0, columns = 0;
  std::vector<double> prices;
  bool forbids = false;  // has an infinite entry; set by Problem's constructor

  [[nodiscard]] const double* row(int r) const {
    return prices.data() + static_cast<std::size_t>(r) * static_cast<std::size_t>(columns);
  }
};

struct Edge {
  int u, v;
  int table;
  int u_classes, v_classes;  // lists that map a label to a row or column; -1: the label itself
};

struct Row {
  double lo, hi;
  std::vector<std::int32_t> nodes, labels;  // terms; of equal ones the coefficients add up
  std::vector<double> coefficients;
};

class Problem {
 public:
  // Throws ProblemError.
  Problem(std::vector<std::vector<double>> unaries, std::vector<Table> tables,
          std::vector<Edge> edges, std::vector<std::vector<std::int32_t>> classes,
          std::vector<std::vector<std::int32_t>> groups, std::vector<Row> rows);

  [[nodiscard]] int nodes() const { return static_cast<int>(unaries.size()); }
  [[nodiscard]] int label_count(int node) const;
  [[nodiscard]] int table_row(const Edge& edge, int u_label) const;
  [[nodiscard]] int table_column(const Edge& edge, int v_label) const;

  // Nodes in order, then edges in order, in plain summation; independent of any algorithm.
  [[nodiscard]] double objective(std::span<const std::int32_t> labels) const;
  // Whether groups and rows hold: rows within row_slack of their bounds.
  [[nodiscard]] bool allows(std::span<const std::int32_t> labels) const;

  const std::vector<std::vector<double>> unaries;
  const std::vector<Table> tables;
  const std::vector<Edge> edges;
  const std::vector<std::vector<std::int32_t>> classes;
  const std::vector<std::vector<std::int32_t>> groups;
  const std::vector<Row> rows;
};

// By how much a sum may miss its bound, for rounding.
[[nodiscard]] double row_slack(double bound);

}  // namespace shardprop::graph
