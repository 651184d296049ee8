#include "graph/problem.h"

#include <cmath>
#include <string>

namespace shardprop::graph {
namespace {

[[noreturn]] void refuse(const std::string& place, std::size_t index, const std::string& wanted) {
  throw ProblemError("Expected " + wanted + " in " + place + " " + std::to_string(index) + ".");
}

bool is_price(double value) { return value > -kInfinity; }  // neither NaN nor -inf

void check_prices(const std::vector<double>& prices, const char* place, std::size_t index) {
  for (const double price : prices) {
    if (!is_price(price)) refuse(place, index, "prices that are finite or +inf");
  }
}

bool within(int index, std::size_t size) {
  return index >= 0 && static_cast<std::size_t>(index) < size;
}

// An end of an edge: its labels, or the classes of them, fit the side of the table they select.
void check_end(const Problem& problem, std::size_t index, int node, int classes, int side) {
  if (!within(node, problem.unaries.size())) refuse("edge", index, "nodes that exist");
  const auto labels = static_cast<std::size_t>(problem.label_count(node));
  if (classes == -1) {
    if (static_cast<std::size_t>(side) != labels) {
      refuse("edge", index, "a table of as many rows and columns as its nodes have labels");
    }
    return;
  }
  if (!within(classes, problem.classes.size())) refuse("edge", index, "classes that exist");
  const auto& list = problem.classes[static_cast<std::size_t>(classes)];
  if (list.size() != labels) refuse("edge", index, "one class per label of its node");
  for (const int row : list) {
    if (row < 0 || row >= side) refuse("edge", index, "classes within its table");
  }
}

void check_row(const Problem& problem, std::size_t index) {
  const Row& row = problem.rows[index];
  if (std::isnan(row.lo) || std::isnan(row.hi) || row.lo == kInfinity || row.hi == -kInfinity) {
    refuse("row", index, "bounds that some sum can meet");
  }
  const std::size_t terms = row.nodes.size();
  if (row.labels.size() != terms || row.coefficients.size() != terms) {
    refuse("row", index, "as many labels and coefficients as nodes");
  }
  for (std::size_t t = 0; t < terms; ++t) {
    if (!within(row.nodes[t], problem.unaries.size())) refuse("row", index, "nodes that exist");
    if (row.labels[t] < 0 || row.labels[t] >= problem.label_count(row.nodes[t])) {
      refuse("row", index, "labels that exist");
    }
    if (!std::isfinite(row.coefficients[t])) refuse("row", index, "finite coefficients");
  }
}

std::vector<Table> with_flags(std::vector<Table> tables) {
  for (Table& table : tables) {
    for (const double price : table.prices) table.forbids |= price == kInfinity;
  }
  return tables;
}

}  // namespace

double row_slack(double bound) { return 1e-9 * std::max(1.0, std::abs(bound)); }

Problem::Problem(std::vector<std::vector<double>> unaries_in, std::vector<Table> tables_in,
                 std::vector<Edge> edges_in, std::vector<std::vector<std::int32_t>> classes_in,
                 std::vector<std::vector<std::int32_t>> groups_in, std::vector<Row> rows_in)
    : unaries(std::move(unaries_in)),
      tables(with_flags(std::move(tables_in))),
      edges(std::move(edges_in)),
      classes(std::move(classes_in)),
      groups(std::move(groups_in)),
      rows(std::move(rows_in)) {
  for (std::size_t i = 0; i < unaries.size(); ++i) check_prices(unaries[i], "node", i);
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const auto sides =
        static_cast<std::size_t>(tables[i].rows) * static_cast<std::size_t>(tables[i].columns);
    if (tables[i].prices.size() != sides) refuse("table", i, "rows times columns prices");
    check_prices(tables[i].prices, "table", i);
  }
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = edges[i];
    if (!within(edge.table, tables.size())) refuse("edge", i, "a table that exists");
    const Table& table = tables[static_cast<std::size_t>(edge.table)];
    check_end(*this, i, edge.u, edge.u_classes, table.rows);
    check_end(*this, i, edge.v, edge.v_classes, table.columns);
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (const int node : groups[i]) {
      if (!within(node, unaries.size())) refuse("group", i, "nodes that exist");
      if (label_count(node) != label_count(groups[i][0])) {
        refuse("group", i, "nodes with equally many labels");
      }
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) check_row(*this, i);
}

int Problem::label_count(int node) const {
  return static_cast<int>(unaries[static_cast<std::size_t>(node)].size());
}

int Problem::table_row(const Edge& edge, int u_label) const {
  if (edge.u_classes < 0) return u_label;
  return classes[static_cast<std::size_t>(edge.u_classes)][static_cast<std::size_t>(u_label)];
}

int Problem::table_column(const Edge& edge, int v_label) const {
  if (edge.v_classes < 0) return v_label;
  return classes[static_cast<std::size_t>(edge.v_classes)][static_cast<std::size_t>(v_label)];
}

double Problem::objective(std::span<const std::int32_t> labels) const {
  double sum = 0;
  for (std::size_t i = 0; i < unaries.size(); ++i) {
    sum += unaries[i][static_cast<std::size_t>(labels[i])];
  }
  for (const Edge& edge : edges) {
    const int row = table_row(edge, labels[static_cast<std::size_t>(edge.u)]);
    const int column = table_column(edge, labels[static_cast<std::size_t>(edge.v)]);
    sum += tables[static_cast<std::size_t>(edge.table)].row(row)[column];
  }
  return sum;
}

bool Problem::allows(std::span<const std::int32_t> labels) const {
  for (const auto& group : groups) {
    for (const int node : group) {
      if (labels[static_cast<std::size_t>(node)] != labels[static_cast<std::size_t>(group[0])]) {
        return false;
      }
    }
  }
  for (const Row& row : rows) {
    double sum = 0;
    for (std::size_t t = 0; t < row.nodes.size(); ++t) {
      if (labels[static_cast<std::size_t>(row.nodes[t])] == row.labels[t]) {
        sum += row.coefficients[t];
      }
    }
    if (sum < row.lo - row_slack(row.lo) || sum > row.hi + row_slack(row.hi)) return false;
  }
  return true;
}

}  // namespace shardprop::graph
