// Random whole-graph problems, small enough to try every assignment, and their models.
#pragma once

#include <optional>

#include "graph/presolve/model.h"
#include "graph/problem.h"

namespace shardprop::graph {

// A deterministic source of numbers (SplitMix64; Steele, Lea and Flood, OOPSLA 2014).
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
  bool chance(double p) { return static_cast<double>(next() >> 11) * 0x1p-53 < p; }

 private:
  std::uint64_t state_;
};

struct RandomGraph {
  int least_nodes = 1, nodes = 6, labels = 4;  // at most
  int rows = 2;
  int edges = 2;  // per node, at most
  double forbidden = 0.15;
};

// With forbidden entries, shared tables, classes, parallel edges, loops, groups and rows. Prices
// are small whole numbers half of the time, so that ties are common.
[[nodiscard]] Problem random_graph(std::uint64_t seed, const RandomGraph& shape = {});

// Frustrated: random prices on all pairs of so many nodes, or with `columns` on the links of a grid
// with so many. Bounds by single links prove little.
[[nodiscard]] Problem frustrated_graph(std::uint64_t seed, int nodes, int labels, int columns = 0);

// The least objective over all assignments; nothing if none is allowed.
[[nodiscard]] std::optional<double> least_objective(const Problem& problem);

// Never to stop.
inline const Interrupt kNever = [] { return false; };

// The model of a problem; nothing if no assignment is allowed.
[[nodiscard]] std::optional<Model> model_of(const Problem& problem);

}  // namespace shardprop::graph
