// A problem with nodes merged into clusters: one choice per cluster decides all its nodes.
//
// Nodes of a group form a cluster. So do the ends of an edge whose infinite entries leave, for
// every label of one end, at most one label of the other ("pairs": parameter and gradient).
// A cluster's label is a tuple of labels, one per node:
//
//   nodes a, b with table [[0, inf], [inf, 3]]  ->  cluster {a, b}, labels (0, 0) and (1, 1)
//
// Labels without a partner on some edge die (arc consistency), as do those no row leaves room for.
#pragma once

#include <optional>

#include "graph/index.h"
#include "graph/interrupt.h"
#include "graph/problem.h"

namespace shardprop::graph {

// One side of a row as `sum amount <= budget` with amounts >= 0 that are 0 for the least label of
// each cluster. A row bounded on both sides gives two, whose amounts run opposite ways.
struct Side {
  struct Term {
    int cluster;
    std::vector<double> amounts;  // by cluster label
  };
  double budget;
  int row;                  // of the problem
  bool upper;               // of its bounds
  std::vector<Term> terms;  // by cluster, ascending; clusters whose amounts are all 0 are left out
};

class Clusters {
 public:
  // The problem must outlive this.
  explicit Clusters(const Problem& problem);

  // Merges and removes until nothing changes. False: some cluster has no label left, or a row
  // cannot be met, so that the problem is infeasible. True if it is interrupted: what is reduced by
  // then holds.
  [[nodiscard]] bool reduce(const Interrupt& interrupt);

  // The sides of all rows that can still bind. Nothing if one cannot be met.
  [[nodiscard]] std::optional<std::vector<Side>> sides() const;

  [[nodiscard]] int count() const { return static_cast<int>(live_.size()); }
  [[nodiscard]] bool empty(int cluster) const { return members_[at(cluster)].empty(); }
  [[nodiscard]] const std::vector<int>& members(int cluster) const { return members_[at(cluster)]; }
  [[nodiscard]] const std::vector<std::uint8_t>& live(int cluster) const {
    return live_[at(cluster)];
  }
  [[nodiscard]] int of(int node) const { return of_[at(node)]; }
  // The label of `node` for each label of its cluster.
  [[nodiscard]] const std::vector<std::int32_t>& labels(int node) const {
    return labels_[at(node)];
  }
  // The row (u) or column (v) of an edge's table for each label of the cluster of that end.
  void table_rows(const Edge& edge, std::vector<std::int32_t>& out) const;
  void table_columns(const Edge& edge, std::vector<std::int32_t>& out) const;

 private:
  [[nodiscard]] std::size_t work_of(const Edge& edge) const;
  void form_groups();
  void kill_forbidden();
  bool kill(int cluster, std::size_t label);
  bool propagate(Meter& meter);
  bool make_consistent(int edge);
  bool keep_room_in_rows();
  bool merge_pairs(Meter& meter);
  bool merge_if_paired(int edge);
  void absorb(int cluster, int other, const std::vector<std::int32_t>& partner);

  const Problem& problem_;
  std::vector<int> of_;                            // by node
  std::vector<std::vector<std::int32_t>> labels_;  // by node
  std::vector<std::vector<int>> members_;          // by cluster; empty where merged away
  std::vector<std::vector<std::uint8_t>> live_;    // by cluster
  std::vector<int> left_;                          // live labels, by cluster
  std::vector<std::vector<int>> forbidding_;       // edges with infinite entries, by node
  std::vector<std::vector<std::pair<int, std::vector<double>>>> row_nodes_;  // coefficients, by row
  std::vector<std::uint8_t> queued_;                                         // by edge
  std::vector<int> queue_;
  bool dead_ = false;
};

}  // namespace shardprop::graph
