// A cost model on one mesh: what each collective costs over each group of mesh dims that has a
// process group, and what local work costs. A value; where its figures come from is the caller's.
//
// Prices are whole picoseconds, so that sums do not depend on their order and ties are ties. Below
// them, in the same integer, is the number of collectives: of two plans that cost the same, the one
// with fewer compares as cheaper.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "layout/mesh.h"
#include "optimal/price_curve.h"

namespace shardprop {

enum class Collective : std::uint8_t {
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kAllToAll,
  kPermute,
};
inline constexpr int kCollectives = 5;

using Price = std::int64_t;
inline constexpr int kCollectiveBits = 8;
// No step is as dear as this, 19 minutes: what would be does not exist.
inline constexpr std::int64_t kMaxPicoseconds = std::int64_t{1} << 50;
inline constexpr Price kNoPrice = Price{1} << 62;  // dearer than every plan

[[nodiscard]] inline Price price_of(std::int64_t picoseconds, int collectives) {
  return picoseconds << kCollectiveBits | collectives;
}
[[nodiscard]] inline Price add(Price a, Price b) {
  return a >= kNoPrice || b >= kNoPrice || a + b >= kNoPrice ? kNoPrice : a + b;
}
[[nodiscard]] inline std::int64_t picoseconds(Price price) { return price >> kCollectiveBits; }
[[nodiscard]] inline double microseconds(Price price) {
  return price >= kNoPrice ? __builtin_huge_val() : static_cast<double>(picoseconds(price)) * 1e-6;
}
[[nodiscard]] inline int collectives(Price price) {
  return static_cast<int>(price & ((Price{1} << kCollectiveBits) - 1));
}

// A price that is no number, or below 0, or beyond what can be added up: the model is to blame.
struct CostError : std::domain_error {
  using std::domain_error::domain_error;
};

// One mesh dim, or several that have a process group in common.
struct Group {
  std::vector<std::uint8_t> mesh_dims;  // ascending
  std::int64_t ranks = 1;
  std::array<PriceCurve, kCollectives> prices{};  // over the bytes that a rank sends
};

struct CostModel {
  int ndim = 0;
  std::array<std::int64_t, kMaxMeshDims> size{};
  std::vector<Group> groups;  // each mesh dim of size 2 and more is there alone
  double kernel_us = 0.0;
  double memory_us_per_byte = 0.0;
  bool all_to_all_gathers = false;  // an all-to-all is made of an all-gather, as torch's over gloo
  // Prices collectives instead of the curves: microseconds from bytes that a rank sends.
  std::function<double(Collective, const Group&, double wire_bytes)> callback;

  // Picoseconds of a collective in which each rank sends `wire_bytes`, and of local kernels that
  // read and write `traffic` bytes in all. All throw CostError.
  [[nodiscard]] std::int64_t communication(Collective kind, const Group& group,
                                           double wire_bytes) const;
  // No more than `communication` of so many bytes, nor of more: for bounds, as prices may fall.
  [[nodiscard]] std::int64_t least_communication(Collective kind, const Group& group,
                                                 double wire_bytes) const;
  [[nodiscard]] std::int64_t local_work(int kernels, double traffic) const;
};

// Throws CostError, with the place, unless sizes are above 0, curves begin at 0 bytes and ascend,
// all figures are finite and not below 0, each mesh dim of size 2 and more has a group of its own,
// and no two groups are the same.
void validate_cost_model(const CostModel& model);

[[nodiscard]] const char* name_of(Collective kind);

}  // namespace shardprop
