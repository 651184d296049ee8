// Policy "optimal": the strategy whose operands are moved at the least total price, each by its
// exact plan, and of such the first in torch's order. Where one moves nothing, the last of those,
// as torch takes it.
//
// Not every strategy is priced. Tables of lower bounds from each operand's layout are made once
// (plan_bound.h). The strategy with the least sum of bounds is priced; those whose bounds are not
// above that are tried in the order of their bounds, until the next one's is above the best price.
// Where that meets too much, the best that is known and torch's choice are what there is to choose
// from, and the answer says by how much it may be too dear.
#pragma once

#include <functional>
#include <optional>

#include "optimal/cost_model.h"
#include "optimal/plan_bound.h"
#include "search/problem.h"

namespace shardprop {

// Strategies that may all be the cheapest as far as bounds can tell, before the proof is given up.
inline constexpr std::size_t kMaxStrategies = std::size_t{1} << 18;

// An output whose later price counts.
struct PricedOutput {
  TensorInfo info;
  std::optional<Layout> consumer;  // none: the nearest layout without a pending partial
  // Microseconds that it costs later under a strategy, where the caller knows better.
  std::function<double(const Rows&)> later_us = nullptr;
};

struct ExactTerms {
  const CostModel& model;
  double memory_limit = 0.0;  // bytes that a rank may hold at once in a step of a plan; 0: any
  BoundCache* cache = nullptr;
  // What part of its later price an output adds to its strategy's, and the outputs if it is not 0.
  double output_weight = 0.0;
  std::vector<PricedOutput> outputs = {};
  // Looked at for one operand, at which the proof is given up: about a fifth of a second.
  std::size_t most_moves = std::size_t{1} << 21;
};

struct ExactDecision {
  Decision decision;         // its cost is that of the operands, in microseconds
  double output_cost = 0.0;  // weighted, in microseconds
  double gap = 0.0;          // microseconds that another may be cheaper by; 0: none is
  std::size_t moves = 0;     // that all searches looked at
};

// Throws OutsidePlanSpace, CostError.
[[nodiscard]] ExactDecision decide_exactly(const Problem& problem, const ExactTerms& terms);

}  // namespace shardprop
