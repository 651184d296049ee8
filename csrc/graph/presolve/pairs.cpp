// Merging of clusters that an edge pairs off label by label.
#include "graph/presolve/clusters.h"

namespace shardprop::graph {
namespace {

constexpr std::int32_t kNoPartner = -1;

// For each live label of one end, the only live label of the other that `allowed` lets it meet.
// Empty: some label has several.
template <typename Allowed>
std::vector<std::int32_t> only_partners(const std::vector<std::uint8_t>& live,
                                        const std::vector<std::uint8_t>& other_live,
                                        Allowed allowed) {
  std::vector<std::int32_t> partner(live.size(), kNoPartner);
  for (std::size_t s = 0; s < live.size(); ++s) {
    if (!live[s]) continue;
    for (std::size_t t = 0; t < other_live.size(); ++t) {
      if (!other_live[t] || !allowed(s, t)) continue;
      if (partner[s] != kNoPartner) return {};
      partner[s] = static_cast<std::int32_t>(t);
    }
  }
  return partner;
}

}  // namespace

// True if something changed.
bool Clusters::merge_pairs(Meter& meter) {
  bool merged = false;
  for (std::size_t e = 0; e < problem_.edges.size(); ++e) {
    merged |= merge_if_paired(static_cast<int>(e));
    if (meter.stop_after(work_of(problem_.edges[e]))) break;
  }
  return merged;
}

bool Clusters::merge_if_paired(int edge_index) {
  const Edge& edge = problem_.edges[at(edge_index)];
  const Table& table = problem_.tables[at(edge.table)];
  const int a = of(edge.u), b = of(edge.v);
  // What has one label left is a constant to its neighbours: merging would only tie them together.
  if (a == b || !table.forbids || left_[at(a)] == 1 || left_[at(b)] == 1) return false;
  std::vector<std::int32_t> rows, columns;
  table_rows(edge, rows);
  table_columns(edge, columns);
  const auto allowed = [&](std::size_t s, std::size_t t) {
    return table.row(rows[s])[columns[t]] < kInfinity;
  };
  const auto partner = only_partners(live(a), live(b), allowed);
  const auto back =
      only_partners(live(b), live(a), [&](std::size_t t, std::size_t s) { return allowed(s, t); });
  if (partner.empty() && back.empty()) return false;
  // The smaller cluster is the one rewritten, so that a long chain of pairs stays cheap.
  const bool into_a = back.empty() || (!partner.empty() && members(a).size() >= members(b).size());
  if (into_a) {
    absorb(a, b, partner);
  } else {
    absorb(b, a, back);
  }
  return true;
}

// `other` disappears into `cluster`; `partner` is its label for each label of `cluster`.
void Clusters::absorb(int cluster, int other, const std::vector<std::int32_t>& partner) {
  for (std::size_t s = 0; s < partner.size(); ++s) {
    if (live_[at(cluster)][s] && partner[s] == kNoPartner) kill(cluster, s);
  }
  for (const int node : members_[at(other)]) {
    std::vector<std::int32_t> mapped(partner.size(), 0);  // dead labels: any, it is never read
    for (std::size_t s = 0; s < partner.size(); ++s) {
      if (partner[s] != kNoPartner) mapped[s] = labels_[at(node)][at(partner[s])];
    }
    labels_[at(node)] = std::move(mapped);
    of_[at(node)] = cluster;
    members_[at(cluster)].push_back(node);
    // Edges inside the cluster are diagonals now, which may forbid labels.
    for (const int e : forbidding_[at(node)]) {
      if (queued_[at(e)]) continue;
      queued_[at(e)] = 1;
      queue_.push_back(e);
    }
  }
  members_[at(other)].clear();
  live_[at(other)].clear();
}

}  // namespace shardprop::graph
