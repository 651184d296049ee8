// A device mesh as the cost model sees it: sizes and links per mesh dim, no ranks.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace shardprop {

// torch meshes beyond this are declined at the boundary; eight placements fit one cache line.
inline constexpr int kMaxMeshDims = 8;

struct Mesh {
  int ndim = 0;
  std::array<std::int64_t, kMaxMeshDims> size{};
  std::array<double, kMaxMeshDims> bandwidth{};  // GB/s per mesh dim
  std::array<double, kMaxMeshDims> latency{};    // microseconds per hop
};

// torch's MeshTopoInfo: walking from the last mesh dim, a dim is inter-host as soon as the product
// of the sizes so far exceeds the devices of one host. Source of the figures: torch 2.13,
// torch/distributed/tensor/_collective_utils.py (A100 with the low-latency NCCL protocol).
[[nodiscard]] Mesh ring_mesh(std::span<const std::int64_t> sizes, std::int64_t devices_per_host);

}  // namespace shardprop
