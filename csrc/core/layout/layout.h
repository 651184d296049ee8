// A layout: the placements over all mesh dims plus the shard order.
//
// The shard order of torch is, per tensor dim, the list of mesh dims in the order in which they cut
// it. Here each mesh dim holds its own place in that list, so that two layouts compare member by
// member. Worked example on a 3-D mesh: tensor dim 0 cut by mesh dim 2 first, then by mesh dim 0,
// is placements (S(0), R, S(0)) with position (1, 0, 0).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "layout/mesh.h"
#include "layout/placement.h"

namespace shardprop {

struct Layout {
  int ndim = 0;
  // False for torch's `shard_order is None`: strided shards stand for the order and were not
  // decoded.
  bool ordered = true;
  std::array<Placement, kMaxMeshDims> placements{};
  std::array<std::uint8_t, kMaxMeshDims> position{};

  friend bool operator==(const Layout&, const Layout&) = default;
};

// Left to right: torch's compute_default_shard_order. Strided shards take part.
[[nodiscard]] Layout default_layout(std::span<const Placement> placements);

// The same placements with `ordered` false, as torch keeps a spec whose strided shards encode
// order.
[[nodiscard]] Layout unordered_layout(std::span<const Placement> placements);

[[nodiscard]] bool has_default_order(const Layout& layout);
[[nodiscard]] bool has_strided(const Layout& layout);
[[nodiscard]] bool all_replicate(const Layout& layout);
[[nodiscard]] bool same_placements(const Layout& a, const Layout& b);

// The layout after one move on one mesh dim: a shard that is put there cuts last.
[[nodiscard]] Layout with_placement(Layout layout, int mesh_dim, Placement placement);

// Product of the mesh sizes over shards and strided shards.
[[nodiscard]] std::int64_t num_shards(const Layout& layout, const Mesh& mesh);

// Strided shards that encode a shard order, as plain shards with that order; nullopt where no order
// gives these split factors (torch's _StridedShardNotDecodableError).
[[nodiscard]] std::optional<Layout> decode_strided(const Layout& layout, const Mesh& mesh);

// The inverse: a layout of plain shards as placements whose strided shards encode its order.
[[nodiscard]] Layout encode_strided(const Layout& layout, const Mesh& mesh);

// Size of piece `rank` when `size` elements are cut into `pieces`, as torch.chunk does: pieces of
// ceil(size / pieces), the last ones short or empty.
[[nodiscard]] std::int64_t chunk_size(std::int64_t size, std::int64_t pieces, std::int64_t rank);

// Local size on `rank` of a dim of `size` under a shard or strided shard over `pieces` ranks.
[[nodiscard]] std::int64_t local_size(Placement placement, std::int64_t size, std::int64_t pieces,
                                      std::int64_t rank);

// Does some rank hold nothing of a dim of `size`, of which others hold something? The shards that
// cut it do so from left to right.
[[nodiscard]] bool leaves_empty(const Layout& layout, const Mesh& mesh, int tensor_dim,
                                std::int64_t size);

// Would plain shards of a dim of `size` over some of the mesh dims, at most as many as it has
// elements, leave a rank nothing?
[[nodiscard]] bool may_leave_empty(const Mesh& mesh, std::int64_t size);

// "S(0)[1] R S(0)[0]": positions are shown only where the order is not the default one.
[[nodiscard]] std::string to_string(const Layout& layout);

}  // namespace shardprop
