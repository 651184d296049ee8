// The inner loop of message passing: out[c] = min over r of weights[r] + matrix[r][c].
#pragma once

#include <vector>

#include "graph/problem.h"

namespace shardprop::graph {

// Rows of infinite weight are skipped. `matrix` is row-major; `out` has `columns` entries.
inline void min_plus(const std::vector<double>& weights, const double* matrix, int rows,
                     int columns, double* out) {
  const auto width = static_cast<std::size_t>(columns);
  for (std::size_t c = 0; c < width; ++c) out[c] = kInfinity;
  // Two rows at a time: the output is loaded and stored half as often.
  const double* pending = nullptr;
  double pending_weight = 0;
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
    if (weights[r] == kInfinity) continue;
    const double* row = matrix + r * width;
    const double weight = weights[r];
    if (pending == nullptr) {
      pending = row;
      pending_weight = weight;
      continue;
    }
    for (std::size_t c = 0; c < width; ++c) {
      const double a = pending_weight + pending[c], b = weight + row[c];
      const double least = a < b ? a : b;
      out[c] = least < out[c] ? least : out[c];
    }
    pending = nullptr;
  }
  if (pending == nullptr) return;
  for (std::size_t c = 0; c < width; ++c) {
    const double a = pending_weight + pending[c];
    out[c] = a < out[c] ? a : out[c];
  }
}

}  // namespace shardprop::graph
