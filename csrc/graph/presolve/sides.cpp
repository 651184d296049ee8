// Resource rows over clusters, as one-sided rows with amounts that start at 0.
#include <algorithm>
#include <cmath>

#include "graph/presolve/clusters.h"

namespace shardprop::graph {
namespace {

// Turns signed coefficients into amounts >= 0 by taking the least live one off; returns it.
double shift_to_zero(std::vector<double>& amounts, const std::vector<std::uint8_t>& live) {
  double least = kInfinity, most = -kInfinity;
  for (std::size_t s = 0; s < amounts.size(); ++s) {
    if (live[s]) least = std::min(least, amounts[s]), most = std::max(most, amounts[s]);
  }
  for (std::size_t s = 0; s < amounts.size(); ++s) amounts[s] = live[s] ? amounts[s] - least : 0;
  if (most == least) amounts.clear();
  return least;
}

}  // namespace

std::optional<std::vector<Side>> Clusters::sides() const {
  std::vector<Side> out;
  for (std::size_t r = 0; r < problem_.rows.size(); ++r) {
    const Row& row = problem_.rows[r];
    std::vector<std::vector<double>> sums(at(count()));
    for (const auto& [node, coefficients] : row_nodes_[r]) {
      auto& sum = sums[at(of(node))];
      sum.resize(labels(node).size(), 0.0);
      for (std::size_t s = 0; s < sum.size(); ++s) sum[s] += coefficients[at(labels(node)[s])];
    }
    for (const bool upper : {true, false}) {
      const double bound = upper ? row.hi : -row.lo;
      if (bound == kInfinity) continue;
      Side side{bound + row_slack(bound), static_cast<int>(r), upper, {}};
      double most = 0;
      for (int c = 0; c < count(); ++c) {
        if (sums[at(c)].empty()) continue;
        std::vector<double> amounts = sums[at(c)];
        if (!upper) {
          for (double& amount : amounts) amount = -amount;
        }
        side.budget -= shift_to_zero(amounts, live(c));
        if (amounts.empty()) continue;
        most += *std::max_element(amounts.begin(), amounts.end());
        side.terms.push_back({c, std::move(amounts)});
      }
      if (side.budget < 0) return std::nullopt;
      if (most > side.budget) out.push_back(std::move(side));
    }
  }
  return out;
}

// Removes labels that alone exceed what the others leave at their least. A row whose bound is the
// sum of minima so fixes every node to its least coefficients.
bool Clusters::keep_room_in_rows() {
  if (problem_.rows.empty()) return true;
  const auto all = sides();
  if (!all) return false;
  for (const Side& side : *all) {
    for (const auto& [cluster, amounts] : side.terms) {
      for (std::size_t s = 0; s < amounts.size(); ++s) {
        if (amounts[s] > side.budget) kill(cluster, s);
      }
    }
  }
  return !dead_;
}

}  // namespace shardprop::graph
