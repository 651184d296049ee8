// The clock of a solve: its time limit, and who wants to hear of its progress.
#pragma once

#include <chrono>

#include "graph/solve.h"

namespace shardprop::graph {

class Ticker {
 public:
  explicit Ticker(const Options& options) : options_(options) {}

  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  // True once the time is up, and `grace` seconds more. Reports progress at most ten times a
  // second.
  [[nodiscard]] bool tick(std::int64_t iterations, double bound, double objective,
                          double grace = 0) {
    const double now = seconds();
    if (options_.progress && now >= next_report_) {
      next_report_ = now + 0.1;
      options_.progress(now, iterations, bound, objective);
    }
    return now >= options_.time_limit + grace;
  }

 private:
  const Options& options_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double next_report_ = 0;
};

}  // namespace shardprop::graph
