#include "graph/search/elimination_order.h"

#include <algorithm>
#include <queue>

#include "graph/index.h"

namespace shardprop::graph {
namespace {

void add_sorted(std::vector<int>& list, int item) {
  const auto place = std::lower_bound(list.begin(), list.end(), item);
  if (place == list.end() || *place != item) list.insert(place, item);
}

void erase_sorted(std::vector<int>& list, int item) {
  const auto place = std::lower_bound(list.begin(), list.end(), item);
  if (place != list.end() && *place == item) list.erase(place);
}

}  // namespace

EliminationOrder elimination_order(const Model& model, const std::vector<double>& prices,
                                   double most) {
  EliminationOrder order;
  const int n = model.variables();
  order.live.resize(at(n));
  for (int v = 0; v < n; ++v) {
    for (int l = 0; l < model.labels(v); ++l) {
      if (prices[at(model.first[at(v)] + l)] != kInfinity) order.live[at(v)].push_back(l);
    }
  }
  std::vector<std::vector<int>> near(at(n));
  for (const Link& link : model.links) {
    if (order.live[at(link.u)].size() < 2 || order.live[at(link.v)].size() < 2) continue;
    add_sorted(near[at(link.u)], link.v);
    add_sorted(near[at(link.v)], link.u);
  }
  const auto weight = [&](int v) {
    auto product = static_cast<double>(order.live[at(v)].size());
    for (const int w : near[at(v)]) product *= static_cast<double>(order.live[at(w)].size());
    return product;
  };
  // Entries are (weight, variable); one whose weight is out of date is skipped when it comes up.
  std::priority_queue<std::pair<double, int>, std::vector<std::pair<double, int>>, std::greater<>>
      queue;
  std::vector<double> current(at(n), -1);
  for (int v = 0; v < n; ++v) {
    if (order.live[at(v)].size() < 2) continue;
    current[at(v)] = weight(v);
    queue.emplace(current[at(v)], v);
  }
  while (!queue.empty()) {
    const auto [size, v] = queue.top();
    queue.pop();
    if (size != current[at(v)]) continue;
    current[at(v)] = -1;
    order.widest = std::max(order.widest, size);
    order.work += size;
    order.width = std::max(order.width, static_cast<int>(near[at(v)].size()));
    if (size > most) return order;
    const std::vector<int> scope = near[at(v)];
    for (const int w : scope) {
      erase_sorted(near[at(w)], v);
      for (const int other : scope) {
        if (other != w) add_sorted(near[at(w)], other);
      }
    }
    for (const int w : scope) {
      current[at(w)] = weight(w);
      queue.emplace(current[at(w)], w);
    }
    order.steps.push_back({v, scope});
  }
  return order;
}

}  // namespace shardprop::graph
