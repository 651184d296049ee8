#include "search/problem.h"

#include <cmath>

namespace shardprop {

double python_sum(std::span<const double> costs, bool compensated) {
  double sum = 0.0, lost = 0.0;
  for (const double x : costs) {
    const double next = sum + x;
    if (compensated) {  // Neumaier, as Python 3.12 and later (Python/bltinmodule.c)
      lost += std::fabs(sum) >= std::fabs(x) ? (sum - next) + x : (x - next) + sum;
    }
    sum = next;
  }
  return compensated && lost != 0.0 && std::isfinite(lost) ? sum + lost : sum;
}

}  // namespace shardprop
