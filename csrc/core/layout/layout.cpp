#include "layout/layout.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace shardprop {
namespace {

bool cuts(Placement placement, int tensor_dim) {
  return placement.is_shard_like() && placement.dim == tensor_dim;
}

// Mesh dims that cut one tensor dim, in the order in which they do.
struct OrderList {
  std::array<std::uint8_t, kMaxMeshDims> mesh_dims{};
  int length = 0;

  void insert(int at, int mesh_dim) {
    std::copy_backward(mesh_dims.begin() + at, mesh_dims.begin() + length,
                       mesh_dims.begin() + length + 1);
    mesh_dims[at] = static_cast<std::uint8_t>(mesh_dim);
    ++length;
  }
};

OrderList order_of(const Layout& layout, int tensor_dim) {
  OrderList list;
  for (int m = 0; m < layout.ndim; ++m) {
    if (!cuts(layout.placements[m], tensor_dim)) continue;
    list.mesh_dims[layout.position[m]] = static_cast<std::uint8_t>(m);
    ++list.length;
  }
  return list;
}

}  // namespace

Layout default_layout(std::span<const Placement> placements) {
  Layout layout;
  layout.ndim = static_cast<int>(placements.size());
  for (int m = 0; m < layout.ndim; ++m) {
    layout.placements[m] = placements[m];
    if (!placements[m].is_shard_like()) continue;
    for (int i = 0; i < m; ++i) layout.position[m] += cuts(placements[i], placements[m].dim);
  }
  return layout;
}

Layout unordered_layout(std::span<const Placement> placements) {
  Layout layout;
  layout.ndim = static_cast<int>(placements.size());
  layout.ordered = false;
  std::copy(placements.begin(), placements.end(), layout.placements.begin());
  return layout;
}

bool has_default_order(const Layout& layout) {
  if (!layout.ordered) return false;
  const auto plain =
      default_layout({layout.placements.data(), static_cast<std::size_t>(layout.ndim)});
  return plain.position == layout.position;
}

bool has_strided(const Layout& layout) {
  return std::any_of(layout.placements.begin(), layout.placements.begin() + layout.ndim,
                     [](Placement p) { return p.is_strided(); });
}

bool all_replicate(const Layout& layout) {
  return std::all_of(layout.placements.begin(), layout.placements.begin() + layout.ndim,
                     [](Placement p) { return p.is_replicate(); });
}

bool same_placements(const Layout& a, const Layout& b) {
  return a.ndim == b.ndim && a.placements == b.placements;
}

Layout with_placement(Layout layout, int mesh_dim, Placement placement) {
  const Placement gone = layout.placements[mesh_dim];
  for (int m = 0; m < layout.ndim && gone.is_shard_like(); ++m) {
    const bool later = layout.position[m] > layout.position[mesh_dim];
    if (cuts(layout.placements[m], gone.dim) && later) --layout.position[m];
  }
  layout.placements[mesh_dim] = replicate();
  layout.position[mesh_dim] = 0;
  if (placement.is_shard_like()) {
    layout.position[mesh_dim] = static_cast<std::uint8_t>(order_of(layout, placement.dim).length);
  }
  layout.placements[mesh_dim] = placement;
  return layout;
}

std::int64_t num_shards(const Layout& layout, const Mesh& mesh) {
  std::int64_t shards = 1;
  for (int m = 0; m < layout.ndim; ++m) {
    if (layout.placements[m].is_shard_like()) shards *= mesh.size[m];
  }
  return shards;
}

std::optional<Layout> decode_strided(const Layout& layout, const Mesh& mesh) {
  if (!has_strided(layout)) {
    return default_layout({layout.placements.data(), static_cast<std::size_t>(layout.ndim)});
  }
  Layout decoded = layout;
  decoded.ordered = true;
  decoded.position = {};
  for (int m = layout.ndim - 1; m >= 0; --m) {
    const Placement placement = layout.placements[m];
    if (!placement.is_shard_like()) continue;
    // The dims to the right of m that cut the same tensor dim, in the order found so far. m belongs
    // at the first place where the product of the sizes before it is its split factor.
    OrderList list;
    for (int i = m + 1; i < layout.ndim; ++i) {
      if (!cuts(layout.placements[i], placement.dim)) continue;
      list.mesh_dims[decoded.position[i]] = static_cast<std::uint8_t>(i);
      ++list.length;
    }
    const std::int64_t factor = placement.is_strided() ? placement.value : 1;
    std::int64_t product = 1;
    int at = 0;
    while (at < list.length && product != factor) product *= mesh.size[list.mesh_dims[at++]];
    if (product != factor) return std::nullopt;
    list.insert(at, m);
    for (int i = 0; i < list.length; ++i) {
      decoded.position[list.mesh_dims[i]] = static_cast<std::uint8_t>(i);
    }
    decoded.placements[m] = shard(placement.dim);
  }
  return decoded;
}

Layout encode_strided(const Layout& layout, const Mesh& mesh) {
  Layout encoded = layout;
  encoded.ordered = false;
  encoded.position = {};
  for (int m = 0; m < layout.ndim; ++m) {
    const Placement placement = layout.placements[m];
    if (placement.is_strided()) {
      throw std::invalid_argument("Expected plain shards to encode a shard order, got " +
                                  to_string(placement) + " on mesh dim " + std::to_string(m) + ".");
    }
    if (!placement.is_shard()) continue;
    const auto list = order_of(layout, placement.dim);
    std::int64_t factor = 1;
    for (int i = 0; i < layout.position[m]; ++i) {
      if (list.mesh_dims[i] > m) factor *= mesh.size[list.mesh_dims[i]];
    }
    if (factor != 1) {
      encoded.placements[m] = strided_shard(placement.dim, static_cast<std::uint32_t>(factor));
    }
  }
  return encoded;
}

std::int64_t chunk_size(std::int64_t size, std::int64_t pieces, std::int64_t rank) {
  const std::int64_t full = (size + pieces - 1) / pieces;
  return std::clamp<std::int64_t>(size - full * rank, 0, full);
}

std::int64_t local_size(Placement placement, std::int64_t size, std::int64_t pieces,
                        std::int64_t rank) {
  if (!placement.is_strided()) return chunk_size(size, pieces, rank);
  // torch.chunk cuts into blocks of ceil(size / factor); all but the last that is not empty are
  // full.
  const std::int64_t factor = placement.value;
  const std::int64_t block = (size + factor - 1) / factor;
  if (block == 0) return 0;
  const std::int64_t full_blocks = size / block;
  return full_blocks * chunk_size(block, pieces, rank) +
         chunk_size(size - full_blocks * block, pieces, rank);
}

bool leaves_empty(const Layout& layout, const Mesh& mesh, int tensor_dim, std::int64_t size) {
  std::vector<std::int64_t> held{size}, next;
  for (int m = 0; m < layout.ndim && size > 0; ++m) {
    const Placement placement = layout.placements[m];
    if (!cuts(placement, tensor_dim)) continue;
    next.clear();
    // Of chunks none but the last may be smaller than the first, where none is empty.
    const std::int64_t last = mesh.size[m] - 1, step = placement.is_strided() ? 1 : last;
    for (const std::int64_t here : held) {
      for (std::int64_t rank = 0; rank <= last; rank += std::max<std::int64_t>(step, 1)) {
        const std::int64_t local = local_size(placement, here, mesh.size[m], rank);
        if (local == 0) return true;
        if (std::find(next.begin(), next.end(), local) == next.end()) next.push_back(local);
      }
    }
    held.swap(next);
  }
  return false;
}

bool may_leave_empty(const Mesh& mesh, std::int64_t size) {
  std::int64_t ranks = 1;
  for (int m = 0; m < mesh.ndim; ++m) ranks *= mesh.size[m];
  // The last of so many chunks of ceil(size / ranks) is empty at most up to this size.
  if (size % ranks == 0 || size > (ranks - 1) * (ranks - 1)) return false;
  for (unsigned chosen = 1; chosen < 1u << mesh.ndim; ++chosen) {
    Layout layout;
    layout.ndim = mesh.ndim;
    for (int m = 0; m < mesh.ndim; ++m) {
      if ((chosen >> m & 1u) != 0) layout.placements[m] = shard(0);
    }
    if (num_shards(layout, mesh) <= size && leaves_empty(layout, mesh, 0, size)) return true;
  }
  return false;
}

std::string to_string(const Layout& layout) {
  const bool show_order = layout.ordered && !has_default_order(layout);
  std::string text;
  for (int m = 0; m < layout.ndim; ++m) {
    if (m > 0) text += ' ';
    text += to_string(layout.placements[m]);
    if (show_order && layout.placements[m].is_shard_like()) {
      text += '[' + std::to_string(layout.position[m]) + ']';
    }
  }
  return text;
}

}  // namespace shardprop
