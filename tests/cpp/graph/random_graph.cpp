#include "random_graph.h"

#include <utility>

namespace shardprop::graph {
namespace {

double random_price(Numbers& numbers, bool whole, double forbidden) {
  if (numbers.chance(forbidden)) return kInfinity;
  const int steps = numbers.below(whole ? 6 : 100000);
  return whole ? steps - 1 : steps * 1e-3 - 10;
}

Row random_row(Numbers& numbers, const std::vector<std::vector<double>>& unaries) {
  Row row{-kInfinity, kInfinity, {}, {}, {}};
  double least = 0, most = 0;
  for (std::size_t i = 0; i < unaries.size(); ++i) {
    if (numbers.chance(0.3)) continue;
    double low = 0, high = 0;
    for (std::size_t l = 0; l < unaries[i].size(); ++l) {
      const double coefficient = numbers.below(9) - 2;
      low = std::min(low, coefficient);
      high = std::max(high, coefficient);
      row.nodes.push_back(static_cast<std::int32_t>(i));
      row.labels.push_back(static_cast<std::int32_t>(l));
      row.coefficients.push_back(coefficient * 0.25);
    }
    least += low * 0.25;
    most += high * 0.25;
  }
  const double part = 0.1 * numbers.below(11);
  const double bound = least + part * (most - least);
  const int kind = numbers.below(4);
  if (kind != 1) row.hi = bound;
  if (kind == 1) row.lo = bound;
  if (kind == 2) row.lo = row.hi - 0.25 * numbers.below(5);
  return row;
}

}  // namespace

Problem random_graph(std::uint64_t seed, const RandomGraph& shape) {
  Numbers numbers(seed);
  const bool whole = numbers.chance(0.5);
  const int n = shape.least_nodes + numbers.below(shape.nodes - shape.least_nodes + 1);
  std::vector<std::vector<double>> unaries(at(n));
  for (auto& unary : unaries) {
    unary.resize(at(1 + numbers.below(shape.labels)));
    for (double& price : unary) price = random_price(numbers, whole, shape.forbidden / 3);
  }
  std::vector<Table> tables;
  for (int t = 0; t < 4; ++t) {
    Table table{1 + numbers.below(shape.labels), 1 + numbers.below(shape.labels), {}};
    const double forbidden = t == 3 ? 3 * shape.forbidden : shape.forbidden;
    for (int i = 0; i < table.rows * table.columns; ++i) {
      table.prices.push_back(random_price(numbers, whole, forbidden));
    }
    tables.push_back(std::move(table));
  }
  std::vector<std::vector<std::int32_t>> classes;
  const auto fit = [&](int node, int side) {
    const int labels = static_cast<int>(unaries[at(node)].size());
    if (labels == side && numbers.chance(0.5)) return -1;
    auto& list = classes.emplace_back();
    for (int l = 0; l < labels; ++l) list.push_back(numbers.below(side));
    return static_cast<int>(classes.size()) - 1;
  };
  std::vector<Edge> edges;
  const int count = numbers.below(shape.edges * n + 1);
  for (int e = 0; e < count; ++e) {
    const int u = numbers.below(n), v = numbers.below(n), t = numbers.below(4);
    const int u_classes = fit(u, tables[at(t)].rows);
    edges.push_back({u, v, t, u_classes, fit(v, tables[at(t)].columns)});
  }
  std::vector<std::vector<std::int32_t>> groups;
  for (int g = 0; g < 2; ++g) {
    const int first = numbers.below(n);
    std::vector<std::int32_t> group{first};
    for (int i = 0; i < n; ++i) {
      if (unaries[at(i)].size() == unaries[at(first)].size() && numbers.chance(0.3)) {
        group.push_back(i);
      }
    }
    if (group.size() > 1) groups.push_back(std::move(group));
  }
  std::vector<Row> rows;
  for (int r = numbers.below(shape.rows + 1); r > 0; --r) {
    rows.push_back(random_row(numbers, unaries));
  }
  return Problem(std::move(unaries), std::move(tables), std::move(edges), std::move(classes),
                 std::move(groups), std::move(rows));
}

Problem frustrated_graph(std::uint64_t seed, int nodes, int labels, int columns) {
  Numbers numbers(seed);
  const auto prices = [&numbers](int count) {
    std::vector<double> out;
    for (int i = 0; i < count; ++i) out.push_back(numbers.below(1000));
    return out;
  };
  std::vector<std::vector<double>> unaries;
  std::vector<Table> tables;
  std::vector<Edge> edges;
  for (int v = 0; v < nodes; ++v) {
    unaries.push_back(prices(labels));
    for (int u = 0; u < v; ++u) {
      const bool beside = columns > 0 && v - u == 1 && v % columns > 0;
      if (columns > 0 && v - u != columns && !beside) continue;
      edges.push_back({u, v, static_cast<int>(tables.size()), -1, -1});
      tables.push_back({labels, labels, prices(labels * labels)});
    }
  }
  return Problem(std::move(unaries), std::move(tables), std::move(edges), {}, {}, {});
}

std::optional<double> least_objective(const Problem& problem) {
  std::optional<double> least;
  std::vector<std::int32_t> labels(at(problem.nodes()), 0);
  while (true) {
    const double objective = problem.objective(labels);
    if (objective < kInfinity && problem.allows(labels) && (!least || objective < *least)) {
      least = objective;
    }
    int i = 0;
    while (i < problem.nodes() && ++labels[at(i)] == problem.label_count(i)) labels[at(i++)] = 0;
    if (i == problem.nodes()) return least;
  }
}

std::optional<Model> model_of(const Problem& problem) {
  Clusters clusters(problem);
  if (!clusters.reduce(kNever)) return std::nullopt;
  auto sides = clusters.sides();
  if (!sides) return std::nullopt;
  return build_model(problem, clusters, std::move(*sides), kNever);
}

}  // namespace shardprop::graph
