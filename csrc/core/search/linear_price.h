// Prices as lines: a latency, and a share for each thing that grows (see guards.h, region.h).
#pragma once

#include <vector>

#include "search/problem.h"

namespace shardprop {

// Microseconds that stay as the sizes change, and those per unit of each thing that grows.
struct LinearPrice {
  double fixed = 0.0;
  std::vector<double> growing;
};

struct Alternative {
  Rows rows;
  LinearPrice line;
};

// Is `a` nowhere below `b`, save by `slack` in each of its numbers?
[[nodiscard]] bool is_never_cheaper(const LinearPrice& a, const LinearPrice& b, double slack);

// Those that no other undercuts whatever the sizes: to beat them is to beat all.
[[nodiscard]] std::vector<Alternative> undominated(const std::vector<Alternative>& alternatives);

// Sums of a few prices in another order, or as expressions, agree to far more than this.
inline constexpr double kNear = 1e-9;
[[nodiscard]] inline bool is_near(double cost, double least) {
  return cost <= least * (1.0 + kNear);
}

}  // namespace shardprop
