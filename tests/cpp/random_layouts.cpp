#include "random_layouts.h"

#include <algorithm>
#include <bit>

namespace shardprop::testing {
namespace {

int pick(std::mt19937_64& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

// Of one piece, or of several between which the price falls and rises.
PriceCurve random_curve(std::mt19937_64& random) {
  std::vector<PricePiece> pieces;
  double from = 0.0;
  const bool straight = pick(random, 0, 1) == 0;
  for (int left = straight ? 1 : pick(random, 2, 5); left > 0; --left) {
    pieces.push_back({from, pick(random, 0, 400) / 16.0, pick(random, 1, 1000) / 1024.0 / 65536.0});
    from += pick(random, 1, 4096) / 2.0;
  }
  return PriceCurve(std::move(pieces));
}

}  // namespace

CostModel random_model(std::mt19937_64& random, std::vector<std::int64_t> sizes, int flattened) {
  CostModel model;
  model.ndim = static_cast<int>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), model.size.begin());
  for (int dims = 1; dims <= model.ndim; ++dims) {
    for (unsigned mask = 1; mask < 1u << model.ndim; ++mask) {
      if (std::popcount(mask) != dims) continue;
      Group group;
      for (int m = 0; m < model.ndim; ++m) {
        if (!(mask >> m & 1u) || sizes[m] == 1) continue;
        group.mesh_dims.push_back(static_cast<std::uint8_t>(m));
        group.ranks *= sizes[m];
      }
      if (static_cast<int>(group.mesh_dims.size()) != dims) continue;
      if (dims > 1 && pick(random, 1, 100) > flattened) continue;
      for (PriceCurve& price : group.prices) price = random_curve(random);
      model.groups.push_back(group);
    }
  }
  model.kernel_us = pick(random, 0, 3) / 2.0;
  model.memory_us_per_byte = pick(random, 0, 2) / 1024.0 / 1024.0;
  model.all_to_all_gathers = pick(random, 0, 3) == 0;
  return model;
}

Layout random_layout(std::mt19937_64& random, int mesh_dims, int tensor_dims, ReduceOp op) {
  Layout layout;
  layout.ndim = mesh_dims;
  std::vector<int> order(mesh_dims);
  for (int m = 0; m < mesh_dims; ++m) order[m] = m;
  std::shuffle(order.begin(), order.end(), random);
  std::vector<std::uint8_t> cuts(tensor_dims);
  for (const int m : order) {
    const int kind = pick(random, 0, 9);
    if (kind < 3) continue;
    if (kind < 5) {
      layout.placements[m] = partial(op);
      continue;
    }
    const int dim = pick(random, 0, tensor_dims - 1);
    layout.placements[m] = shard(dim);
    layout.position[m] = cuts[dim]++;
  }
  return layout;
}

}  // namespace shardprop::testing
