// Raising a node's bound by its multipliers.
#include <algorithm>
#include <cmath>

#include "graph/search/search.h"

namespace shardprop::graph {
namespace {

// An answer seen on the way, as a line over one multiplier: price + multiplier * over.
struct Line {
  double multiplier, price, over;
};

}  // namespace

// One side at a time, the others held. The bound is concave in each; where the lines of an answer
// that overdraws and of one that does not cross is the next multiplier to try.
void Search::tune_one(Node& node, std::size_t s, int evaluations, int patience) {
  const Side& side = model_.sides[s];
  double best_bound = node.bound, best_multiplier = node.multipliers[s];
  std::optional<Line> over, under;
  double trial = node.multipliers[s];
  for (int i = 0; i < evaluations && !stopped(); ++i) {
    node.multipliers[s] = trial;
    set_multipliers(model_, node.multipliers, node.passing);
    double here = -kInfinity;
    double amount = 0, price = 0;
    bool seen = false;
    for (int k = 0; k < 2 * patience; ++k) {
      const double before = node.bound;
      node.bound = -kInfinity;
      const bool open = pass(node);
      here = std::max(here, node.bound);
      node.bound = std::max(before, node.bound);
      if (!open || closed(node)) return;
      if (node.passing.chosen().empty()) continue;
      seen = true;
      amount = overdraft(side, node.passing.chosen());
      price = model_.cost(node.passing.chosen());
      for (std::size_t other = 0; other < model_.sides.size(); ++other) {
        if (other == s || node.multipliers[other] == 0) continue;
        price += node.multipliers[other] * overdraft(model_.sides[other], node.passing.chosen());
      }
    }
    if (here > best_bound) best_bound = here, best_multiplier = trial;
    if (!seen) break;
    if (amount > 0) {
      over = Line{trial, price, amount};
    } else {
      under = Line{trial, price, amount};
      if (trial == 0) break;  // the side does not bind
    }
    double next = 0;
    if (!over) {
      next = i < 6 ? trial / 4 : 0;
    } else if (!under) {
      const double scale = std::max(scale_, std::abs(node.bound)) * 1e-3 / over->over;
      next = trial == 0 ? scale : trial * 4;
    } else {
      const double low = over->multiplier, high = under->multiplier;
      if (!(low < high) || high - low <= 1e-9 * high) break;
      next = (under->price - over->price) / (over->over - under->over);
      // A crossing outside, or at an end, says that these answers were not the best ones.
      const double margin = 0.02 * (high - low);
      if (!(next > low + margin && next < high - margin)) next = 0.5 * (low + high);
    }
    if (next == trial) break;
    trial = next;
  }
  node.multipliers[s] = best_multiplier;
  set_multipliers(model_, node.multipliers, node.passing);
}

void Search::tune_multipliers(Node& node, int evaluations, int patience) {
  const int rounds = model_.sides.size() > 1 ? 3 : 1;
  for (int round = 0; round < rounds; ++round) {
    const double before = node.bound;
    for (std::size_t s = 0; s < model_.sides.size(); ++s) {
      if (!stopped() && !closed(node)) tune_one(node, s, evaluations, patience);
    }
    if (!(node.bound > before)) break;
  }
  if (!model_.sides.empty() && !stopped() && !closed(node)) tighten(node, patience + 2);
}

}  // namespace shardprop::graph
