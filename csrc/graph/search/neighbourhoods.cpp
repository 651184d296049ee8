#include "graph/search/neighbourhoods.h"

#include <algorithm>

#include "graph/index.h"

namespace shardprop::graph {
namespace {

constexpr std::size_t kFirst = 2;  // variables; then a quarter more at a time
constexpr std::size_t kMostChanged = 8;

}  // namespace

Neighbourhoods::Neighbourhoods(const Model& model) : model_(model), near_(at(model.variables())) {
  for (const Link& link : model.links) {
    near_[at(link.u)].push_back(link.v);
    near_[at(link.v)].push_back(link.u);
  }
}

EliminationOrder Neighbourhoods::next(const std::vector<int>& chosen,
                                      const std::vector<double>& prices, double most_entries) {
  std::vector<double> left(prices.size(), kInfinity);
  for (std::size_t v = 0; v < chosen.size(); ++v) left[at(model_.first[v] + chosen[v])] = 0;
  const std::vector<int> variables = from(static_cast<int>(random_() % chosen.size()));
  EliminationOrder found = elimination_order(model_, left, most_entries);
  for (std::size_t count = 0, last = kFirst; count < variables.size();
       last += std::max<std::size_t>(1, last / 4)) {
    for (; count < std::min(last, variables.size()); ++count) {
      const std::size_t v = at(variables[count]);
      for (auto l = at(model_.first[v]); l < at(model_.first[v + 1]); ++l) {
        left[l] = std::min(left[l], prices[l]);
      }
    }
    EliminationOrder order = elimination_order(model_, left, most_entries);
    if (order.widest > most_entries) break;
    found = std::move(order);
  }
  return found;
}

std::vector<int> Neighbourhoods::changed(std::vector<int> chosen) {
  const std::vector<int> variables = from(static_cast<int>(random_() % chosen.size()));
  const std::size_t count = std::min<std::size_t>(variables.size(), 2 + random_() % kMostChanged);
  for (std::size_t i = 0; i < count; ++i) {
    const int v = variables[i];
    chosen[at(v)] = static_cast<int>(random_() % at(model_.labels(v)));
  }
  return chosen;
}

// All variables that one is linked to, by distance; in random order where that is the same.
std::vector<int> Neighbourhoods::from(int v) {
  std::vector<int> found{v};
  std::vector<bool> seen(near_.size(), false);
  seen[at(v)] = true;
  for (std::size_t i = 0; i < found.size(); ++i) {
    auto& near = near_[at(found[i])];
    for (std::size_t j = near.size(); j > 1; --j) std::swap(near[j - 1], near[random_() % j]);
    for (const int w : near) {
      if (!seen[at(w)]) found.push_back(w);
      seen[at(w)] = true;
    }
  }
  return found;
}

}  // namespace shardprop::graph
