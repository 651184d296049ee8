#include "graph/presolve/model.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "graph/index.h"
#include "graph/presolve/compress.h"

namespace shardprop::graph {
namespace {

// An edge between two variables, by live label; u < v, `flipped` if the edge runs from v to u.
struct End {
  int u, v, table;
  bool flipped;
  std::vector<std::int32_t> rows, columns;  // by label of u, of v; rows of the table unless flipped
};

class Builder {
 public:
  Builder(const Problem& problem, const Clusters& clusters, const Interrupt& interrupt)
      : problem_(problem),
        clusters_(clusters),
        meter_(interrupt),
        variable_(at(clusters.count()), -1) {
    model_.first.push_back(0);
    for (int c = 0; c < clusters.count(); ++c) {
      if (!clusters.empty(c)) add_variable(c);
    }
    for (int i = 0; i < problem.nodes(); ++i) {
      const int v = variable_[at(clusters.of(i))];
      model_.variable_of.push_back(v);
      auto& labels = model_.node_labels.emplace_back();
      for (const int s : kept_[at(v)]) labels.push_back(clusters.labels(i)[at(s)]);
      for (std::size_t l = 0; l < labels.size(); ++l) {
        unary(v)[l] += problem.unaries[at(i)][at(labels[l])];
      }
    }
  }

  Model finish(std::vector<Side> sides) {
    std::vector<End> ends;
    for (const Edge& edge : problem_.edges) {
      add_edge(edge, ends);
      ask(8 * (problem_.unaries[at(edge.u)].size() + problem_.unaries[at(edge.v)].size()));
    }
    link_up(ends);
    add_sides(std::move(sides));
    drop_dominated();
    index_links();
    return std::move(model_);
  }

 private:
  void ask(std::size_t work) { (void)meter_.stop_after(work); }

  void add_variable(int cluster) {
    variable_[at(cluster)] = static_cast<int>(kept_.size());
    auto& kept = kept_.emplace_back();
    const auto& live = clusters_.live(cluster);
    for (std::size_t s = 0; s < live.size(); ++s) {
      if (live[s]) kept.push_back(static_cast<int>(s));
    }
    model_.first.push_back(model_.first.back() + static_cast<int>(kept.size()));
    model_.unary.resize(at(model_.first.back()), 0.0);
  }

  double* unary(int v) { return model_.unary.data() + model_.first[at(v)]; }

  // An edge within one variable, or with one side constant, is a unary price.
  void add_edge(const Edge& edge, std::vector<End>& ends) {
    const Table& table = problem_.tables[at(edge.table)];
    const int a = model_.variable_of[at(edge.u)], b = model_.variable_of[at(edge.v)];
    std::vector<std::int32_t> rows(model_.node_labels[at(edge.u)]);
    std::vector<std::int32_t> columns(model_.node_labels[at(edge.v)]);
    for (std::int32_t& row : rows) row = problem_.table_row(edge, row);
    for (std::int32_t& column : columns) column = problem_.table_column(edge, column);
    const auto constant = [](const std::vector<std::int32_t>& list) {
      return std::all_of(list.begin(), list.end(), [&](int x) { return x == list[0]; });
    };
    if (a == b) {
      for (std::size_t s = 0; s < rows.size(); ++s) unary(a)[s] += table.row(rows[s])[columns[s]];
    } else if (constant(rows)) {
      for (std::size_t t = 0; t < columns.size(); ++t) {
        unary(b)[t] += table.row(rows[0])[columns[t]];
      }
    } else if (constant(columns)) {
      for (std::size_t s = 0; s < rows.size(); ++s) unary(a)[s] += table.row(rows[s])[columns[0]];
    } else if (a < b) {
      ends.push_back({a, b, edge.table, false, std::move(rows), std::move(columns)});
    } else {
      ends.push_back({b, a, edge.table, true, std::move(columns), std::move(rows)});
    }
  }

  // One matrix per table in use and direction; one per set of parallel edges.
  void link_up(std::vector<End>& ends) {
    compress_tables(ends);
    std::stable_sort(ends.begin(), ends.end(), [](const End& x, const End& y) {
      return std::pair(x.u, x.v) < std::pair(y.u, y.v);
    });
    for (const End& end : ends) {
      Link link{end.u, end.v, end.table, end.rows, end.columns};
      ask(8 * (end.rows.size() + end.columns.size()));
      if (!model_.links.empty() && model_.links.back().u == end.u &&
          model_.links.back().v == end.v &&
          joiner_.join(model_.matrices, model_.links.back(), link)) {
        continue;
      }
      model_.links.push_back(std::move(link));
    }
  }

  // Afterwards `table` is the matrix of an end and its rows and columns are those of the matrix.
  void compress_tables(std::vector<End>& ends) {
    std::vector<Usage> usage;
    std::map<std::pair<int, bool>, int> matrix_of;
    for (const End& end : ends) {
      const auto [it, fresh] =
          matrix_of.try_emplace({end.table, end.flipped}, static_cast<int>(usage.size()));
      if (fresh) usage.emplace_back(problem_.tables[at(end.table)], end.flipped);
      usage[at(it->second)].use(end.rows, end.columns);
    }
    for (Usage& used : usage) {
      model_.matrices.push_back(used.compress());
      ask(8 * model_.matrices.back().prices.size());
    }
    for (End& end : ends) {
      end.table = matrix_of.at({end.table, end.flipped});
      usage[at(end.table)].translate(end.rows, end.columns);
    }
  }

  void add_sides(std::vector<Side> sides) {
    for (Side& side : sides) {
      for (auto& [cluster, amounts] : side.terms) {
        const int v = variable_[at(cluster)];
        std::vector<double> live;
        for (const int s : kept_[at(v)]) live.push_back(amounts[at(s)]);
        amounts = std::move(live);
        cluster = v;
      }
    }
    model_.sides = std::move(sides);
  }

  // Of labels that are alike on every link and side only the cheapest can be needed.
  void drop_dominated() {
    std::vector<std::vector<std::vector<std::int32_t>*>> looks(kept_.size());
    for (Link& link : model_.links) {
      looks[at(link.u)].push_back(&link.rows);
      looks[at(link.v)].push_back(&link.columns);
    }
    std::vector<std::vector<std::vector<double>*>> amounts(kept_.size());
    for (Side& side : model_.sides) {
      for (auto& term : side.terms) amounts[at(term.cluster)].push_back(&term.amounts);
    }
    std::vector<std::vector<int>> keep(kept_.size());
    for (std::size_t v = 0; v < kept_.size(); ++v) {
      keep[v] = undominated(unary(static_cast<int>(v)), static_cast<int>(kept_[v].size()), looks[v],
                            amounts[v]);
      ask(32 * kept_[v].size());
      for (auto* list : looks[v]) select(*list, keep[v]);
      for (auto* list : amounts[v]) select(*list, keep[v]);
    }
    for (std::size_t i = 0; i < model_.node_labels.size(); ++i) {
      select(model_.node_labels[i], keep[at(model_.variable_of[i])]);
    }
    std::vector<int> first{0};
    std::vector<double> unaries;
    for (std::size_t v = 0; v < keep.size(); ++v) {
      for (const int l : keep[v]) unaries.push_back(unary(static_cast<int>(v))[l]);
      first.push_back(static_cast<int>(unaries.size()));
    }
    model_.first = std::move(first);
    model_.unary = std::move(unaries);
  }

  void index_links() {
    model_.back.resize(kept_.size());
    model_.ahead.resize(kept_.size());
    for (std::size_t e = 0; e < model_.links.size(); ++e) {
      model_.ahead[at(model_.links[e].u)].push_back(static_cast<int>(e));
      model_.back[at(model_.links[e].v)].push_back(static_cast<int>(e));
    }
  }

  const Problem& problem_;
  const Clusters& clusters_;
  Meter meter_;
  Model model_;
  MatrixJoiner joiner_;
  std::vector<int> variable_;           // by cluster
  std::vector<std::vector<int>> kept_;  // cluster labels by variable
};

}  // namespace

double Model::scale() const {
  double most = 0;
  const auto see = [&most](const std::vector<double>& prices) {
    for (const double price : prices) {
      if (price != kInfinity) most = std::max(most, std::abs(price));
    }
  };
  see(unary);
  for (const Matrix& matrix : matrices) see(matrix.prices);
  return std::min(most, 1.0);
}

double Model::cost(const std::vector<int>& chosen) const {
  double sum = 0;
  for (int v = 0; v < variables(); ++v) sum += unary[at(first[at(v)] + chosen[at(v)])];
  for (const Link& link : links) {
    sum += matrices[at(link.matrix)].at(link.rows[at(chosen[at(link.u)])],
                                        link.columns[at(chosen[at(link.v)])]);
  }
  return sum;
}

std::vector<std::int32_t> Model::expand(const std::vector<int>& chosen) const {
  std::vector<std::int32_t> out(node_labels.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = node_labels[i][at(chosen[at(variable_of[i])])];
  }
  return out;
}

Model build_model(const Problem& problem, const Clusters& clusters, std::vector<Side> sides,
                  const Interrupt& interrupt) {
  return Builder(problem, clusters, interrupt).finish(std::move(sides));
}

}  // namespace shardprop::graph
