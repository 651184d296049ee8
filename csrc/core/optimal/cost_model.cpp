#include "optimal/cost_model.h"

#include <cmath>
#include <set>

namespace shardprop {
namespace {

std::int64_t rounded(double us, const char* what) {
  const double ps = 1e6 * us;
  if (!(ps >= 0.0)) {
    throw CostError(std::string("Expected a price of 0 us and more for ") + what + ", got " +
                    std::to_string(us) + " us.");
  }
  if (ps > static_cast<double>(kMaxPicoseconds)) return kMaxPicoseconds;
  return static_cast<std::int64_t>(std::floor(ps + 0.5));
}

void require(double value, const std::string& where) {
  if (std::isfinite(value) && value >= 0.0) return;
  throw CostError(where + ": Expected a number of 0 and more, got " + std::to_string(value) + ".");
}

void validate_curve(const PriceCurve& curve, const std::string& where) {
  if (curve.pieces().empty()) throw CostError(where + ": Expected one piece and more, got none.");
  double last = -1.0;
  for (const PricePiece& piece : curve.pieces()) {
    require(piece.from_bytes, where + ".from_bytes");
    require(piece.fixed_us, where + ".fixed_us");
    require(piece.us_per_byte, where + ".us_per_byte");
    if (last < 0.0 ? piece.from_bytes != 0.0 : piece.from_bytes <= last) {
      throw CostError(where + ".from_bytes: Expected 0 first and then ascending bytes, got " +
                      std::to_string(piece.from_bytes) + ".");
    }
    last = piece.from_bytes;
  }
}

unsigned mask_of(const Group& group) {
  unsigned mask = 0;
  for (const std::uint8_t m : group.mesh_dims) mask |= 1u << m;
  return mask;
}

void validate_group(const CostModel& model, const Group& group, const std::string& where) {
  if (group.mesh_dims.empty()) throw CostError(where + ": Expected one mesh dim and more, got 0.");
  std::int64_t ranks = 1;
  for (std::size_t i = 0; i < group.mesh_dims.size(); ++i) {
    const int m = group.mesh_dims[i];
    if (m >= model.ndim || (i > 0 && m <= group.mesh_dims[i - 1])) {
      throw CostError(where + ": Expected ascending mesh dims below " + std::to_string(model.ndim) +
                      ", got " + std::to_string(m) + ".");
    }
    ranks *= model.size[m];
  }
  if (ranks != group.ranks || ranks < 2) {
    throw CostError(where + ": Expected a group of 2 ranks and more, got " + std::to_string(ranks) +
                    ".");
  }
  for (int kind = 0; kind < kCollectives; ++kind) {
    validate_curve(group.prices[kind], where + "." + name_of(static_cast<Collective>(kind)));
  }
}

}  // namespace

std::int64_t CostModel::communication(Collective kind, const Group& group,
                                      double wire_bytes) const {
  if (callback) return rounded(callback(kind, group, wire_bytes), name_of(kind));
  return rounded(group.prices[static_cast<int>(kind)].at(wire_bytes), name_of(kind));
}

std::int64_t CostModel::least_communication(Collective kind, const Group& group,
                                            double wire_bytes) const {
  if (callback) return 0;
  return rounded(group.prices[static_cast<int>(kind)].least_from(wire_bytes), name_of(kind));
}

std::int64_t CostModel::local_work(int kernels, double traffic) const {
  return rounded(kernels * kernel_us + traffic * memory_us_per_byte, "local work");
}

void validate_cost_model(const CostModel& model) {
  std::set<unsigned> seen;
  for (std::size_t g = 0; g < model.groups.size(); ++g) {
    const std::string where = "groups[" + std::to_string(g) + "]";
    validate_group(model, model.groups[g], where);
    if (!seen.insert(mask_of(model.groups[g])).second) {
      throw CostError(where + ": Expected each group once, got it a second time.");
    }
  }
  for (int m = 0; m < model.ndim; ++m) {
    if (model.size[m] < 1) {
      throw CostError("sizes[" + std::to_string(m) + "]: Expected a mesh dim of 1 rank and more.");
    }
    if (model.size[m] > 1 && !seen.contains(1u << m)) {
      throw CostError("groups: Expected one for mesh dim " + std::to_string(m) + ", got none.");
    }
  }
  require(model.kernel_us, "kernel_us");
  require(model.memory_us_per_byte, "memory_us_per_byte");
}

const char* name_of(Collective kind) {
  constexpr const char* kNames[kCollectives] = {"all_gather", "reduce_scatter", "all_reduce",
                                                "all_to_all", "permute"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace shardprop
