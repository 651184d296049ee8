#include "torch_plan/graph_search.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "torch_plan/transition.h"

namespace shardprop {

namespace {
constexpr int kCodes = 32;
constexpr std::uint32_t kNoParent = FlatMap::kNone;
}  // namespace

struct GraphSearch::View {
  std::array<Placement, kMaxMeshDims> placement;
  std::array<std::int8_t, kCodes> last;    // mesh dim that cut this tensor dim last, -1 if none
  std::array<std::uint8_t, kCodes> count;  // mesh dims that cut it
  // Per mesh dim; all other moves are free. From a shard or a partial only.
  std::array<double, kMaxMeshDims> to_replicate{}, to_shard{};
  std::uint32_t reduce_ops = 0;  // bits of the reduce ops held

  View(const GraphSearch& search, State state) {
    last.fill(-1);
    count.fill(0);
    const int mesh_dims = search.source_.ndim;
    std::int64_t shards = 1;
    for (int m = 0; m < mesh_dims; ++m) {
      const Placement p = placement[m] = search.alphabet_[code_at(state, m)];
      if (p.is_partial()) reduce_ops |= op_bit(p);
      if (!p.is_shard_like()) continue;
      shards *= search.mesh_.size[m];
      const auto position = static_cast<int>((state >> (8 * m + 5)) & 7);
      if (position + 1 >= count[p.dim]) {
        count[p.dim] = static_cast<std::uint8_t>(position + 1);
        last[p.dim] = static_cast<std::int8_t>(m);
      }
    }
    const double gigabytes = local_gigabytes(search.bytes_, shards);
    for (int m = 0; m < mesh_dims; ++m) {
      const Placement p = placement[m];
      if (!p.is_shard() && !p.is_partial()) continue;
      // Any other tensor dim does for the price of a move to a shard.
      const Placement elsewhere = shard(p.is_shard() ? p.dim + 1 : 0);
      to_replicate[m] = price_step(p, replicate(), search.mesh_, m, gigabytes).cost;
      to_shard[m] = price_step(p, elsewhere, search.mesh_, m, gigabytes).cost;
    }
  }

  static std::uint32_t op_bit(Placement p) { return std::uint32_t{1} << (p.reduce_op() & 31); }

  [[nodiscard]] bool last_is(int d, Kind kind) const {
    return last[d] >= 0 && placement[last[d]].kind == kind;
  }

  // Reduce ops alone count here, not classes.
  [[nodiscard]] bool may_hold(Placement added) const {
    constexpr std::uint32_t kSumAvg = 1u << kSum | 1u << kAvg;
    const std::uint32_t ops = reduce_ops | op_bit(added);
    return (ops & (ops - 1)) == 0 || ops == kSumAvg;
  }
};

GraphSearch::GraphSearch(const Mesh& mesh, int tensor_dims, double bytes, const Layout& source,
                         Moves moves)
    : mesh_(mesh),
      tensor_dims_(tensor_dims),
      bytes_(bytes),
      source_(source),
      moves_(std::move(moves)) {
  alphabet_.push_back(replicate());
  for (int d = 0; d < tensor_dims; ++d) alphabet_.push_back(shard(d));
  const auto add = [this](Placement placement) {
    if (code_of(placement) < 0) alphabet_.push_back(placement);
    return code_of(placement);
  };
  for (const Placement p : moves_.partials) partial_codes_.push_back(add(p));
  for (const Placement p : moves_.strided) strided_codes_.push_back(add(p));
  if (moves_.zero_fill != 0) add(partial(kSum));
  for (int m = 0; m < source.ndim; ++m) add(source.placements[m]);
  if (alphabet_.size() > kCodes) {
    throw TooManyPlacements("Expected at most 32 different placements in one plan, got " +
                            std::to_string(alphabet_.size()) + ".");
  }
  nodes_.reserve(256);
  heap_.reserve(256);
  State start = 0;
  (void)pack(source_, start);
  push(start, 0.0, 0.0, kNoParent);
}

int GraphSearch::code_of(Placement placement) const {
  const auto found = std::find(alphabet_.begin(), alphabet_.end(), placement);
  return found == alphabet_.end() ? -1 : static_cast<int>(found - alphabet_.begin());
}

bool GraphSearch::pack(const Layout& layout, State& state) const {
  state = 0;
  for (int m = 0; m < layout.ndim; ++m) {
    const int code = code_of(layout.placements[m]);
    if (code < 0) return false;
    state = with(state, m, code, layout.position[m]);
  }
  return true;
}

Layout GraphSearch::unpack(State state) const {
  Layout layout;
  layout.ndim = source_.ndim;
  for (int m = 0; m < layout.ndim; ++m) {
    layout.placements[m] = alphabet_[code_at(state, m)];
    layout.position[m] = (state >> (8 * m + 5)) & 7;
  }
  return layout;
}

GraphSearch::State GraphSearch::with(State state, int mesh_dim, int code, int position) {
  const auto byte = static_cast<State>(code) | (static_cast<State>(position) << 5);
  return (state & ~(State{0xff} << (8 * mesh_dim))) | (byte << (8 * mesh_dim));
}

void GraphSearch::aim(const GraphBound& bound, double limit, bool guided) {
  bound_ = &bound;
  limit_ = limit;
  guided_ = guided;
  bound_parts_.resize(static_cast<std::size_t>(source_.ndim) * kCodes);
  for (int m = 0; m < source_.ndim; ++m) {
    for (std::size_t code = 0; code < alphabet_.size(); ++code) {
      bound_parts_[static_cast<std::size_t>(m) * kCodes + code] = bound.part(m, alphabet_[code]);
    }
  }
}

std::uint32_t GraphSearch::bound_number(State state) const {
  std::uint32_t number = 0;
  for (int m = 0; m < source_.ndim; ++m) number += bound_parts_[m * kCodes + code_at(state, m)];
  return number;
}

void GraphSearch::push(State state, double cost, double left, std::uint32_t parent) {
  std::uint32_t node = index_.find(state);
  const std::uint32_t order = pushes_++;
  if (node == FlatMap::kNone) {
    node = static_cast<std::uint32_t>(nodes_.size());
    nodes_.push_back({state, cost, parent, false});
    index_.insert(state, node);
  } else {
    // torch pushes every unvisited neighbour; one that is not cheaper can never be popped first.
    if (nodes_[node].settled || !(cost < nodes_[node].cost)) return;
    nodes_[node].cost = cost;
    nodes_[node].parent = parent;
  }
  // Among layouts on equally cheap paths the guided search takes those nearer to the goal: hence
  // the weight. It may then miss the least price by as much, which only makes the limit wider.
  heap_.push_back({guided_ ? cost + left * (1.0 + 1e-9) : cost, order, node});
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>{});
}

// The order of these groups, and of the loops in them, is torch's; ties depend on it.
void GraphSearch::expand(std::uint32_t node) {
  const State state = nodes_[node].state;
  const double cost = nodes_[node].cost;
  const View view(*this, state);
  const int mesh_dims = source_.ndim;
  const std::uint32_t number = bound_ == nullptr ? 0 : bound_number(state);
  const auto move = [&](int m, int code, int position, double price) {
    // The slack covers sums that are taken in another order than the path's.
    constexpr double kSlack = 1.0 + 1e-12;
    double left = 0.0;
    if (bound_ != nullptr) {
      const auto* parts = &bound_parts_[static_cast<std::size_t>(m) * kCodes];
      left = bound_->at(number - parts[code_at(state, m)] + parts[code]);
      if (cost + price + left > limit_ * kSlack) return;
    }
    push(with(state, m, code, position), cost + price, left, node);
  };
  const auto to_replicate = [&](int m) { move(m, 0, 0, view.to_replicate[m]); };
  const auto to_shard = [&](int m, int d) { move(m, 1 + d, view.count[d], view.to_shard[m]); };

  for (int d = 0; d < tensor_dims_; ++d) {
    if (!view.last_is(d, Kind::kShard)) continue;
    for (int e = 0; e < tensor_dims_; ++e) {
      if (e != d) to_shard(view.last[d], e);
    }
  }
  for (int d = 0; d < tensor_dims_; ++d) {
    if (view.last_is(d, Kind::kShard)) to_replicate(view.last[d]);
  }
  for (int m = 0; m < mesh_dims; ++m) {
    if (view.placement[m].is_partial()) to_replicate(m);
  }
  for (const Kind from : {Kind::kReplicate, Kind::kPartial}) {
    for (int m = 0; m < mesh_dims; ++m) {
      if (view.placement[m].kind != from) continue;
      for (int d = 0; d < tensor_dims_; ++d) to_shard(m, d);
    }
  }
  for (int m = 0; m < mesh_dims; ++m) {
    if (!view.placement[m].is_replicate()) continue;
    for (const int code : partial_codes_) {
      if (view.may_hold(alphabet_[code])) move(m, code, 0, 0.0);
    }
  }
  for (int d = 0; d < tensor_dims_; ++d) {
    if (view.last_is(d, Kind::kStridedShard)) to_replicate(view.last[d]);
  }
  for (int m = 0; m < mesh_dims; ++m) {
    if (!view.placement[m].is_replicate()) continue;
    for (const int code : strided_codes_) {
      move(m, code, view.count[alphabet_[code].dim], 0.0);
    }
  }
  for (int d = 0; d < tensor_dims_ && moves_.zero_fill != 0; ++d) {
    const int m = view.last[d];
    if (!view.last_is(d, Kind::kShard) || !(moves_.zero_fill >> m & 1)) continue;
    move(m, code_of(partial(kSum)), 0, 0.0);
  }
}

std::uint32_t GraphSearch::settle_until(State goal) {
  const std::uint32_t known = index_.find(goal);
  if (known != FlatMap::kNone && nodes_[known].settled) return known;
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>{});
    const Entry entry = heap_.back();
    heap_.pop_back();
    if (nodes_[entry.node].settled) continue;
    nodes_[entry.node].settled = true;
    expand(entry.node);
    if (nodes_[entry.node].state == goal) return entry.node;
  }
  return FlatMap::kNone;
}

void GraphSearch::find_trail(const Layout& goal) {
  trail_.clear();
  State state = 0;
  if (!pack(goal, state)) return;
  for (auto node = settle_until(state); node != kNoParent; node = nodes_[node].parent) {
    trail_.push_back(node);
  }
  std::reverse(trail_.begin(), trail_.end());
}

std::vector<Layout> GraphSearch::path_to(const Layout& goal) {
  find_trail(goal);
  std::vector<Layout> path;
  for (const auto node : trail_) path.push_back(unpack(nodes_[node].state));
  return path;
}

std::vector<Layout> GraphSearch::path(const Mesh& mesh, int tensor_dims, double bytes,
                                      const Layout& source, const Layout& goal,
                                      const Moves& moves) {
  const GraphBound bound(mesh, bytes, source, goal, !moves.strided.empty(), moves.zero_fill);
  GraphSearch guided(mesh, tensor_dims, bytes, source, moves);
  guided.aim(bound, std::numeric_limits<double>::max(), true);
  guided.find_trail(goal);
  if (guided.trail_.empty()) return {};
  GraphSearch exact(mesh, tensor_dims, bytes, source, moves);
  exact.aim(bound, guided.nodes_[guided.trail_.back()].cost, false);
  return exact.path_to(goal);
}

std::optional<double> GraphSearch::price_to(const Layout& goal) {
  find_trail(goal);
  if (trail_.empty()) return std::nullopt;
  double gigabytes = local_gigabytes(bytes_, num_shards(source_, mesh_));
  double cost = 0.0;
  for (std::size_t i = 1; i < trail_.size(); ++i) {
    const State from = nodes_[trail_[i - 1]].state, to = nodes_[trail_[i]].state;
    // A step changes one placement; positions left of it stay.
    const int m = std::countr_zero(from ^ to) / 8;
    const Step step =
        price_step(alphabet_[code_at(from, m)], alphabet_[code_at(to, m)], mesh_, m, gigabytes);
    cost += step.cost;
    gigabytes = step.gigabytes;
  }
  return cost;
}

}  // namespace shardprop
