#include "layout/placement.h"

namespace shardprop {

std::string to_string(Placement placement) {
  const auto dim = std::to_string(placement.dim);
  switch (placement.kind) {
    case Kind::kReplicate:
      return "R";
    case Kind::kShard:
      return "S(" + dim + ")";
    case Kind::kStridedShard:
      return "SS(" + dim + ", " + std::to_string(placement.value) + ")";
    case Kind::kPartial:
      return "P(" + std::to_string(placement.reduce_op()) + ")";
    case Kind::kOpaque:
      return "O(" + std::to_string(placement.identity) + ")";
    case Kind::kAbsent:
      return "None";
    case Kind::kPlaceholder:
      return "*(" + dim + ")";
  }
  return "?";
}

}  // namespace shardprop
