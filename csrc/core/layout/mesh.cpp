#include "layout/mesh.h"

#include <stdexcept>
#include <string>

namespace shardprop {

Mesh ring_mesh(std::span<const std::int64_t> sizes, std::int64_t devices_per_host) {
  if (sizes.empty() || sizes.size() > kMaxMeshDims) {
    throw std::invalid_argument("Expected a mesh of 1 to " + std::to_string(kMaxMeshDims) +
                                " dims, got " + std::to_string(sizes.size()) + ".");
  }
  Mesh mesh;
  mesh.ndim = static_cast<int>(sizes.size());
  std::int64_t devices = 1;
  for (int m = mesh.ndim - 1; m >= 0; --m) {
    if (sizes[m] < 1) {
      throw std::invalid_argument("Expected mesh dim " + std::to_string(m) +
                                  " to have a size of at least 1, got " + std::to_string(sizes[m]) +
                                  ".");
    }
    mesh.size[m] = sizes[m];
    mesh.bandwidth[m] = 87.7;
    mesh.latency[m] = 0.6;
    devices *= sizes[m];
    if (devices > devices_per_host) {
      mesh.bandwidth[m] *= 0.22;
      mesh.latency[m] = 2.7;
    }
  }
  return mesh;
}

}  // namespace shardprop
