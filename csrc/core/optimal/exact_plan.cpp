#include "optimal/exact_plan.h"

#include <algorithm>

namespace shardprop {

PlanSearch::PlanSearch(const PlanSpace& space, State source, double memory_limit)
    : space_(space), table_(space, memory_limit) {
  reach(source, 0, 0.0, FlatMap::kNone, {});
}

PlanSearch::PlanSearch(const PlanSpace& space, State source, const PlanBound& bound,
                       double memory_limit, Price most)
    : space_(space), bound_(&bound), enough_(most), table_(space, memory_limit) {
  reach(source, 0, 0.0, FlatMap::kNone, {});
}

void PlanSearch::reach(State state, Price price, double peak, std::uint32_t parent,
                       const PlannedMove& move) {
  std::uint32_t number = index_.find(state);
  if (number == FlatMap::kNone) {
    const Price to_go = bound_ == nullptr ? 0 : bound_->of(state);
    const Price total = add(price, to_go);
    // No way from there, or none that could be the cheapest.
    if (total >= kNoPrice || total > enough_) return;
    number = static_cast<std::uint32_t>(labels_.size());
    if (number >= kMaxLayouts) throw SearchTooLong("too many layouts for an exact plan");
    index_.insert(state, number);
    labels_.push_back({state, price, peak, parent, false, move});
    least_to_go_.push_back(to_go);
  } else {
    Label& known = labels_[number];
    const bool better = price < known.price || (price == known.price && peak < known.peak_bytes);
    if (known.settled || !better) return;
    known = {state, price, peak, parent, false, move};
  }
  if (bound_ != nullptr && least_to_go_[number] == 0 && space_.reached(state) == bound_->target()) {
    enough_ = std::min(enough_, price);
  }
  queue_.push({price + least_to_go_[number], peak, pushed_++, number, price});
}

std::uint32_t PlanSearch::settle() {
  while (!queue_.empty()) {
    const Entry entry = queue_.top();
    queue_.pop();
    if (labels_[entry.label].settled) continue;
    labels_[entry.label].settled = true;
    const Label from = labels_[entry.label];
    table_.from(from.state, moves_, from.move.kind == MoveKind::kPermute ? from.move.mask : 0u);
    looked_at_ += moves_.size();
    for (const PlannedMove& move : moves_) {
      reach(move.to, add(from.price, move.price), std::max(from.peak_bytes, move.peak_bytes),
            entry.label, move);
    }
    return entry.label;
  }
  return FlatMap::kNone;
}

ExactPlan exact_plan(const CostModel& model, const TensorInfo& info, const Layout& source,
                     const Layout& target, double memory_limit, BoundCache* cache, Price most) {
  const Layout from = PlanSpace::normalise(source, info, model);
  const Layout to = PlanSpace::normalise(target, info, model);
  const PlanSpace space(model, info, from, {&to, 1});
  const State goal = space.encode(to);
  const PlanBound bound(space, goal, cache);
  PlanSearch search(space, space.encode(from), bound, memory_limit, most);
  ExactPlan plan;
  std::uint32_t at = FlatMap::kNone;
  do {
    at = search.settle();
  } while (at != FlatMap::kNone && space.reached(search.label(at).state) != goal);
  plan.moves = search.moves();
  plan.bound_pattern = bound.pattern();
  plan.moves_of_bound = bound.moves();
  if (at == FlatMap::kNone) return plan;
  plan.found = true;
  plan.price = search.label(at).price;
  plan.peak_bytes = search.label(at).peak_bytes;
  for (; search.label(at).parent != FlatMap::kNone; at = search.label(at).parent) {
    const PlanSearch::Label& label = search.label(at);
    plan.steps.push_back(
        {label.move, space.decode(search.label(label.parent).state), space.decode(label.state)});
  }
  std::reverse(plan.steps.begin(), plan.steps.end());
  return plan;
}

ExactPlan price_steps(const CostModel& model, const TensorInfo& info, const Layout& source,
                      const Layout& target, std::span<const ForeignStep> steps) {
  Layout at = PlanSpace::normalise(source, info, model);
  ExactPlan plan;
  plan.price = 0;
  for (const ForeignStep& step : steps) {
    const Layout after = PlanSpace::normalise(step.after, info, model);
    const PlanSpace space(model, info, at, {&after, 1});
    const State to = space.encode(after);
    if (to != space.encode(at)) {  // else it is on mesh dims of one rank
      std::vector<PlannedMove> moves;
      MoveTable(space, 0.0).from(space.encode(at), moves);
      const unsigned mask = space.active_mask(step.mesh_dims);
      const auto found = std::find_if(moves.begin(), moves.end(), [&](const PlannedMove& move) {
        return space.reached(move.to) == to && move.mask == mask;
      });
      if (found == moves.end()) return plan;
      plan.price = add(plan.price, found->price);
      plan.peak_bytes = std::max(plan.peak_bytes, found->peak_bytes);
      plan.steps.push_back({*found, at, after});
      at = after;
    }
    ++plan.followed;
  }
  plan.found = at == PlanSpace::normalise(target, info, model);
  return plan;
}

}  // namespace shardprop
