// A cost model as Python holds it.
#pragma once

#include "optimal/cost_model.h"
#include "optimal/plan_bound.h"

namespace shardprop::bindings {

// With what was found out under it.
struct BoundCostModel {
  CostModel model;
  mutable BoundCache cache;
};

}  // namespace shardprop::bindings
