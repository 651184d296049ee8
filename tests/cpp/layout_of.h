// A layout by its placements, in the default shard order.
#pragma once

#include <vector>

#include "layout/layout.h"

namespace shardprop {

inline Layout layout_of(const std::vector<Placement>& placements) {
  return default_layout(placements);
}

}  // namespace shardprop
