#include "graph/presolve/clusters.h"

#include <algorithm>
#include <numeric>

namespace shardprop::graph {
namespace {

int root_of(std::vector<int>& parent, int i) {
  while (parent[static_cast<std::size_t>(i)] != i) {
    int& up = parent[static_cast<std::size_t>(i)];
    up = parent[static_cast<std::size_t>(up)];
    i = up;
  }
  return i;
}

}  // namespace

Clusters::Clusters(const Problem& problem) : problem_(problem) {
  form_groups();
  kill_forbidden();
  forbidding_.resize(problem.unaries.size());
  queued_.assign(problem.edges.size(), 0);
  for (std::size_t e = 0; e < problem.edges.size(); ++e) {
    const Edge& edge = problem.edges[e];
    if (!problem.tables[at(edge.table)].forbids) continue;
    forbidding_[at(edge.u)].push_back(static_cast<int>(e));
    if (edge.v != edge.u) forbidding_[at(edge.v)].push_back(static_cast<int>(e));
    queued_[e] = 1;
    queue_.push_back(static_cast<int>(e));
  }
  for (const Row& row : problem.rows) {
    std::vector<int> slot(problem.unaries.size(), -1);
    auto& nodes = row_nodes_.emplace_back();
    for (std::size_t t = 0; t < row.nodes.size(); ++t) {
      int& s = slot[at(row.nodes[t])];
      if (s < 0) {
        s = static_cast<int>(nodes.size());
        nodes.emplace_back(row.nodes[t],
                           std::vector<double>(problem.unaries[at(row.nodes[t])].size(), 0.0));
      }
      nodes[at(s)].second[at(row.labels[t])] += row.coefficients[t];
    }
  }
}

// Clusters are numbered by their first node, so that their order is that of the graph.
void Clusters::form_groups() {
  const int n = problem_.nodes();
  std::vector<int> parent(at(n));
  std::iota(parent.begin(), parent.end(), 0);
  for (const auto& group : problem_.groups) {
    for (const int node : group) {
      const int a = root_of(parent, group[0]), b = root_of(parent, node);
      parent[at(std::max(a, b))] = std::min(a, b);
    }
  }
  of_.assign(at(n), -1);
  labels_.resize(at(n));
  for (int i = 0; i < n; ++i) {
    const int root = root_of(parent, i);
    const std::size_t count = problem_.unaries[at(i)].size();
    if (root == i) {
      of_[at(i)] = static_cast<int>(members_.size());
      members_.emplace_back();
      live_.emplace_back(count, std::uint8_t{1});
      left_.push_back(static_cast<int>(count));
    }
    of_[at(i)] = of_[at(root)];
    members_[at(of_[at(i)])].push_back(i);
    labels_[at(i)].resize(count);
    std::iota(labels_[at(i)].begin(), labels_[at(i)].end(), 0);
    dead_ |= count == 0;
  }
}

void Clusters::kill_forbidden() {
  for (int i = 0; i < problem_.nodes(); ++i) {
    const auto& unary = problem_.unaries[at(i)];
    for (std::size_t l = 0; l < unary.size(); ++l) {
      if (unary[l] == kInfinity) kill(of(i), l);
    }
  }
}

bool Clusters::kill(int cluster, std::size_t label) {
  if (!live_[at(cluster)][label]) return false;
  live_[at(cluster)][label] = 0;
  if (--left_[at(cluster)] == 0) dead_ = true;
  if (forbidding_.empty()) return true;  // still being built: every edge is queued later
  for (const int node : members_[at(cluster)]) {
    for (const int e : forbidding_[at(node)]) {
      if (queued_[at(e)]) continue;
      queued_[at(e)] = 1;
      queue_.push_back(e);
    }
  }
  return true;
}

void Clusters::table_rows(const Edge& edge, std::vector<std::int32_t>& out) const {
  out.assign(labels(edge.u).begin(), labels(edge.u).end());
  for (std::int32_t& label : out) label = problem_.table_row(edge, label);
}

void Clusters::table_columns(const Edge& edge, std::vector<std::int32_t>& out) const {
  out.assign(labels(edge.v).begin(), labels(edge.v).end());
  for (std::int32_t& label : out) label = problem_.table_column(edge, label);
}

// Removes the labels of both ends of an edge that no live label of the other end allows.
bool Clusters::make_consistent(int edge_index) {
  const Edge& edge = problem_.edges[at(edge_index)];
  const Table& table = problem_.tables[at(edge.table)];
  const int a = of(edge.u), b = of(edge.v);
  std::vector<std::int32_t> rows, columns;
  table_rows(edge, rows);
  table_columns(edge, columns);
  if (a == b) {
    for (std::size_t s = 0; s < rows.size(); ++s) {
      if (table.row(rows[s])[columns[s]] == kInfinity) kill(a, s);
    }
    return !dead_;
  }
  // 0: not in use; 1: in use; 2: in use and allowed by the other end.
  std::vector<std::uint8_t> row_state(at(table.rows), 0), column_state(at(table.columns), 0);
  std::vector<int> used_rows, used_columns;
  for (std::size_t s = 0; s < rows.size(); ++s) {
    if (!live_[at(a)][s] || row_state[at(rows[s])]) continue;
    row_state[at(rows[s])] = 1;
    used_rows.push_back(rows[s]);
  }
  for (std::size_t t = 0; t < columns.size(); ++t) {
    if (!live_[at(b)][t] || column_state[at(columns[t])]) continue;
    column_state[at(columns[t])] = 1;
    used_columns.push_back(columns[t]);
  }
  for (const int r : used_rows) {
    for (const int c : used_columns) {
      if (table.row(r)[c] == kInfinity) continue;
      row_state[at(r)] = column_state[at(c)] = 2;
      break;
    }
  }
  for (const int c : used_columns) {
    if (column_state[at(c)] == 2) continue;
    for (const int r : used_rows) {
      if (table.row(r)[c] == kInfinity) continue;
      column_state[at(c)] = 2;
      break;
    }
  }
  for (std::size_t s = 0; s < rows.size(); ++s) {
    if (live_[at(a)][s] && row_state[at(rows[s])] == 1) kill(a, s);
  }
  for (std::size_t t = 0; t < columns.size(); ++t) {
    if (live_[at(b)][t] && column_state[at(columns[t])] == 1) kill(b, t);
  }
  return !dead_;
}

bool Clusters::propagate(Meter& meter) {
  while (!queue_.empty() && !dead_) {
    const int edge = queue_.back();
    queue_.pop_back();
    queued_[at(edge)] = 0;
    make_consistent(edge);
    if (meter.stop_after(work_of(problem_.edges[at(edge)]))) break;
  }
  return !dead_;
}

bool Clusters::reduce(const Interrupt& interrupt) {
  Meter meter(interrupt);
  do {
    if (dead_ || !propagate(meter)) return false;
    if (meter.stopped()) break;
    if (!keep_room_in_rows()) return false;
    if (!queue_.empty()) continue;
    if (!merge_pairs(meter) || meter.stopped()) break;
  } while (true);
  return true;
}

// Most of a table is rarely read: the first entries that are allowed decide.
std::size_t Clusters::work_of(const Edge& edge) const {
  const Table& table = problem_.tables[at(edge.table)];
  return 8 * (live_[at(of(edge.u))].size() + live_[at(of(edge.v))].size()) +
         table.prices.size() / 8;
}

}  // namespace shardprop::graph
