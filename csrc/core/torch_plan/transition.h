// torch's table of one-step moves of one mesh dim: what its ring model asks for them and what they
// do to the bytes that each rank holds. (Policy optimal's: optimal/plan_moves.h.)
#pragma once

#include "layout/mesh.h"
#include "layout/placement.h"

namespace shardprop {

inline constexpr double kImpossible = __builtin_huge_val();

struct Step {
  double cost;       // microseconds; kImpossible for a move torch refuses
  double gigabytes;  // held by a rank after the move
};

// torch's _compute_placement_transition_cost, bit for bit: the operations and their order are part
// of the contract, since a last bit decides a tie. `gigabytes` is what a rank holds before the
// move.
[[nodiscard]] inline Step price_step(Placement from, Placement to, const Mesh& mesh, int mesh_dim,
                                     double gigabytes);

// What a rank holds of `bytes` cut into `shards` pieces, in torch's units and rounding.
[[nodiscard]] inline double local_gigabytes(double bytes, std::int64_t shards) {
  return bytes / static_cast<double>(shards) / 1024 / 1024 / 1024;
}

namespace detail {

// A ring collective in which each rank passes its piece on `laps * (n - 1)` times.
inline double ring(double gigabytes, const Mesh& mesh, int mesh_dim, int laps) {
  const auto ranks = mesh.size[mesh_dim];
  const auto hops = static_cast<double>(laps * (ranks - 1));
  const double latency = 6.6 + hops * mesh.latency[mesh_dim];
  const double seconds = (gigabytes * hops / static_cast<double>(ranks)) / mesh.bandwidth[mesh_dim];
  return latency + seconds * 1e6;
}

}  // namespace detail

inline Step price_step(Placement from, Placement to, const Mesh& mesh, int mesh_dim,
                       double gigabytes) {
  if (from == to) return {0.0, gigabytes};
  const auto ranks = static_cast<double>(mesh.size[mesh_dim]);
  if (from.is_shard() && to.is_replicate()) {  // all-gather, priced by what a rank holds after it
    gigabytes *= ranks;
    return {detail::ring(gigabytes, mesh, mesh_dim, 1), gigabytes};
  }
  // torch has no all-to-all price: an all-gather's, plus a penalty.
  if (from.is_shard() && to.is_shard())
    return {detail::ring(gigabytes, mesh, mesh_dim, 1) + 1.0, gigabytes};
  if (from.is_partial() && to.is_replicate())
    return {detail::ring(gigabytes, mesh, mesh_dim, 2), gigabytes};
  if (from.is_partial() && to.is_shard()) {
    return {detail::ring(gigabytes, mesh, mesh_dim, 1), gigabytes / ranks};
  }
  if ((from.is_shard() || from.is_partial()) && to.is_partial()) return {kImpossible, gigabytes};
  if (from.is_replicate() && to.is_shard()) return {0.0, gigabytes / ranks};
  return {0.0, gigabytes};  // among them every move from or to a strided shard
}

}  // namespace shardprop
