#include "torch_plan/graph_bound.h"

#include <queue>

#include "torch_plan/transition.h"

namespace shardprop {

GraphBound::GraphBound(const Mesh& mesh, double bytes, const Layout& source, const Layout& goal,
                       bool strided, std::uint8_t zero_fill)
    : mesh_(mesh), bytes_(bytes), goal_(goal), strided_(strided), zero_fill_(zero_fill) {
  occurs_[kReplicated] = occurs_[kGoal] = occurs_[kShardElse] = true;
  occurs_[kStridedElse] = strided || has_strided(source);
  for (int m = 0; m < source.ndim; ++m) {
    occurs_[kPartialElse] |= source.placements[m].is_partial() || goal.placements[m].is_partial();
  }
  std::uint32_t states = 1;
  for (int m = 0; m < goal.ndim; ++m) {
    weight_[m] = states;
    states *= kClasses;
  }
  distance_.assign(states, kImpossible);
  relax_all();
}

std::uint32_t GraphBound::part(int m, Placement placement) const {
  Class cls = kShardElse;
  if (placement.is_replicate()) {
    cls = kReplicated;
  } else if (placement == goal_.placements[m]) {
    cls = kGoal;
  } else if (placement.is_partial()) {
    cls = kPartialElse;
  } else if (placement.is_strided()) {
    cls = kStridedElse;
  }
  return cls * weight_[m];
}

// A placement of the class, good for prices: they do not depend on tensor dim or split factor.
Placement GraphBound::example(int m, Class cls) const {
  const Placement goal = goal_.placements[m];
  switch (cls) {
    case kReplicated:
      return replicate();
    case kGoal:
      return goal;
    case kPartialElse:
      return partial(kFirstUnknownOp);
    case kStridedElse:
      return strided_shard(0, 0);
    default:
      return shard(goal.is_shard() ? goal.dim + 1 : 0);
  }
}

double GraphBound::move_cost(int m, Class from, Class to, double gigabytes) const {
  const Placement a = example(m, from), b = example(m, to);
  const auto price = [&] { return price_step(a, b, mesh_, m, gigabytes).cost; };
  if (from == to || (from == kGoal && goal_.placements[m].is_replicate())) return kImpossible;
  if (b.is_replicate()) return to == kReplicated ? price() : kImpossible;
  if (a.is_replicate()) return b.is_strided() && !strided_ ? kImpossible : price();
  if (b.is_shard() && (a.is_shard() || a.is_partial())) return price();
  if (a.is_shard() && to == kGoal && b.is_partial() && (zero_fill_ >> m & 1)) return 0.0;
  return kImpossible;
}

// Dijkstra's algorithm from the goal backwards.
void GraphBound::relax_all() {
  std::uint32_t start = 0;
  for (int m = 0; m < goal_.ndim; ++m) {
    start += (goal_.placements[m].is_replicate() ? kReplicated : kGoal) * weight_[m];
  }
  using Entry = std::pair<double, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  distance_[start] = 0.0;
  queue.emplace(0.0, start);
  while (!queue.empty()) {
    const auto [distance, state] = queue.top();
    queue.pop();
    if (distance > distance_[state]) continue;
    std::int64_t shards = 1;
    std::array<Class, kMaxMeshDims> classes{};
    for (int m = 0; m < goal_.ndim; ++m) {
      classes[m] = static_cast<Class>(state / weight_[m] % kClasses);
      if (example(m, classes[m]).is_shard_like()) shards *= mesh_.size[m];
    }
    for (int m = 0; m < goal_.ndim; ++m) {
      const auto elsewhere = shards / (example(m, classes[m]).is_shard_like() ? mesh_.size[m] : 1);
      for (int c = 0; c < kClasses; ++c) {
        const auto from = static_cast<Class>(c);
        if (from == classes[m] || !occurs_[from]) continue;
        const auto held = elsewhere * (example(m, from).is_shard_like() ? mesh_.size[m] : 1);
        const double step = move_cost(m, from, classes[m], local_gigabytes(bytes_, held));
        const std::uint32_t before = state - classes[m] * weight_[m] + from * weight_[m];
        if (distance + step < distance_[before]) {
          distance_[before] = distance + step;
          queue.emplace(distance_[before], before);
        }
      }
    }
  }
}

}  // namespace shardprop
