// Policy "optimal": the strategy whose operands are moved at the least total price, each by its
// exact plan, and of such the first in torch's order.
//
// No price is computed that does not matter. One search runs from each operand's layout, nearest
// layouts first; what it has not reached yet costs at least its radius. The strategy with the least
// bound is taken, and the searches go on until its own destinations are reached, or until another
// strategy's bound is less.
#pragma once

#include <optional>

#include "cost_model.h"
#include "plan_bound.h"
#include "problem.h"

namespace shardprop {

// An output whose later price counts.
struct WeighedOutput {
  TensorInfo info;
  std::optional<Layout> consumer;  // none: the nearest layout without a pending partial
};

struct ExactTerms {
  const CostModel& model;
  double memory_limit = 0.0;  // bytes that a rank may hold at once in a step of a plan; 0: any
  BoundCache* cache = nullptr;
  // What part of its later price an output adds to its strategy's, and the outputs if it is not 0.
  double output_weight = 0.0;
  std::vector<WeighedOutput> outputs = {};
};

struct ExactDecision {
  Decision decision;         // its cost is that of the operands, in microseconds
  double output_cost = 0.0;  // weighed, in microseconds
  std::size_t layouts = 0;   // met by all searches
};

// Throws OutsidePlanSpace, CostError.
[[nodiscard]] ExactDecision decide_exactly(const Problem& problem, const ExactTerms& terms);

}  // namespace shardprop
