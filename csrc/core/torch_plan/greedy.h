// torch's greedy redistribution planner (generate_greedy_transform_infos), as a walk that calls a
// visitor for each step. One walk serves two readers: the plan, where every placement of the
// destination is known, and the search, which knows only those from mesh dim `first_known` on and
// wants a lower bound on the price. The search fixes the last mesh dims first because the walk
// begins there: what it knows is then what is paid first, with the bytes it is paid for.
#pragma once

#include "layout/layout.h"
#include "layout/mesh.h"

namespace shardprop {

// Is tensor dim `tensor_dim` cut differently before and after by one of the mesh dims
// [first_known, m)? Then mesh dim `m` cuts it inside other cuts than before, and the walk must
// replicate it first.
[[nodiscard]] inline bool is_misaligned(const Layout& src, const Placement* dst, int first_known,
                                        int m, int tensor_dim) {
  const Placement cut = shard(tensor_dim);
  for (int i = first_known; i < m; ++i) {
    if ((src.placements[i] == cut) != (dst[i] == cut)) return true;
  }
  return false;
}

// In plan order, `visit` gets
//   step(mesh_dim, from, to)    a step of the plan;
//   either(mesh_dim, from, to)  a step to the shard `to`, or first to Replicate if the mesh dims
//   that
//                               are not known turn out to cut otherwise than before;
//   open(mesh_dim)              whatever a mesh dim that is not known will do.
// `src_shards` is num_shards(src, mesh).
template <class Visitor>
void walk_greedy(const Layout& src, const Placement* dst, int first_known, std::int64_t src_shards,
                 Visitor& visit) {
  const int ndim = src.ndim;
  std::array<Placement, kMaxMeshDims> current = src.placements;
  const bool realign = ndim > 1 && src_shards > 1;
  if (realign) {  // inner to outer: undo nested cuts that the destination does not share
    for (int m = ndim - 1; m >= first_known; --m) {
      Placement target = dst[m];
      if (target.is_shard()) {
        if (is_misaligned(src, dst, first_known, m, target.dim)) {
          target = replicate();
        } else if (first_known > 0) {
          visit.either(m, current[m], target);
          current[m] = target;
          continue;
        }
      }
      if (current[m] == target) continue;
      visit.step(m, current[m], target);
      current[m] = target;
    }
  }
  for (int m = 0; m < first_known; ++m) visit.open(m);
  for (int m = first_known; m < ndim; ++m) {
    if (!(current[m] == dst[m])) visit.step(m, current[m], dst[m]);
  }
}

// Price of the greedy plan in microseconds, exact for first_known == 0, otherwise a lower bound
// over every completion of the destination. `may_shard` says whether some completion shards a mesh
// dim that is not known. The bound holds in floating point too: every operation of the price is
// monotone in the bytes and in the sum so far, and the sum is taken in plan order.
[[nodiscard]] double greedy_cost(const Layout& src, const Placement* dst, int first_known,
                                 const Mesh& mesh, double gigabytes, std::int64_t src_shards,
                                 bool may_shard);

// Price of the whole plan for a tensor of `bytes`.
[[nodiscard]] double greedy_cost(const Layout& src, const Layout& dst, const Mesh& mesh,
                                 double bytes);

}  // namespace shardprop
