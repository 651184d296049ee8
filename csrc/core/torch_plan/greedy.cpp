#include "torch_plan/greedy.h"

#include <algorithm>

#include "torch_plan/transition.h"

namespace shardprop {
namespace {

struct Pricing {
  const Layout& src;
  const Mesh& mesh;
  double gigabytes;
  bool may_shard;
  double cost = 0.0;

  void step(int m, Placement from, Placement to) {
    const Step price = price_step(from, to, mesh, m, gigabytes);
    cost += price.cost;
    gigabytes = price.gigabytes;
  }

  // Aligned or not, whichever is cheaper; and the fewer bytes of the two afterwards.
  void either(int m, Placement from, Placement to) {
    if (from == to) return;
    const Step direct = price_step(from, to, mesh, m, gigabytes);
    cost += from.is_shard()
                ? std::min(direct.cost, price_step(from, replicate(), mesh, m, gigabytes).cost)
                : direct.cost;
    gigabytes = direct.gigabytes;
  }

  // The kindest completion: the step is free and the rank is left with the least it could hold.
  void open(int m) {
    if (may_shard && !src.placements[m].is_shard()) gigabytes /= static_cast<double>(mesh.size[m]);
  }
};

}  // namespace

double greedy_cost(const Layout& src, const Placement* dst, int first_known, const Mesh& mesh,
                   double gigabytes, std::int64_t src_shards, bool may_shard) {
  Pricing pricing{src, mesh, gigabytes, may_shard};
  walk_greedy(src, dst, first_known, src_shards, pricing);
  return pricing.cost;
}

double greedy_cost(const Layout& src, const Layout& dst, const Mesh& mesh, double bytes) {
  const auto shards = num_shards(src, mesh);
  return greedy_cost(src, dst.placements.data(), 0, mesh, local_gigabytes(bytes, shards), shards,
                     true);
}

}  // namespace shardprop
