#include "graph/factors.h"
namespace shardprop::graph {
Elimination eliminate_with_sides(const Model&, const EliminationOrder&, double, std::size_t, const Interrupt&) {
  return {Elimination::Outcome::kTooLarge, {}};
}
}
