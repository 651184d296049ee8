// The cheapest plan from one layout to another under a cost model, proved so: A* over the layouts
// of a PlanSpace with the bound of plan_bound.h. And the prices from one layout to many.
//
// Of plans of one price, the one with fewer collectives, then with the lower peak of bytes held,
// then the one that the search meets first, which depends on the question alone.
#pragma once

#include <queue>

#include "layout/flat_map.h"
#include "optimal/plan_bound.h"
#include "optimal/plan_moves.h"

namespace shardprop {

// Layouts met in one search before it gives up: about half a second.
inline constexpr std::size_t kMaxLayouts = std::size_t{1} << 18;

// Layouts by state, each with the cheapest way found to it.
class PlanSearch {
 public:
  struct Label {
    State state;
    Price price = 0;
    double peak_bytes = 0.0;
    std::uint32_t parent = FlatMap::kNone;
    bool settled = false;
    PlannedMove move;
  };

  // From `source`, nearest layouts first. `space` must outlive the search.
  PlanSearch(const PlanSpace& space, State source, double memory_limit);
  // To the target of `bound` alone, and no further than `most`.
  PlanSearch(const PlanSpace& space, State source, const PlanBound& bound, double memory_limit,
             Price most);

  // Settles one more layout and gives its number; FlatMap::kNone when there is none left. Throws
  // SearchTooLong past kMaxLayouts.
  std::uint32_t settle();
  // What the next layout costs at least.
  [[nodiscard]] Price radius() const { return queue_.empty() ? kNoPrice : queue_.top().estimate; }
  [[nodiscard]] const Label& label(std::uint32_t number) const { return labels_[number]; }
  // How many moves were looked at.
  [[nodiscard]] std::size_t moves() const { return looked_at_; }

 private:
  struct Entry {
    Price estimate;
    double peak_bytes;
    std::uint32_t order, label;
    Price price;

    bool operator>(const Entry& other) const {
      if (estimate != other.estimate) return estimate > other.estimate;
      if (peak_bytes != other.peak_bytes) return peak_bytes > other.peak_bytes;
      return order > other.order;
    }
  };

  void reach(State state, Price price, double peak, std::uint32_t parent, const PlannedMove& move);

  const PlanSpace& space_;
  const PlanBound* bound_ = nullptr;
  Price enough_ = kNoPrice;  // the price of a way to the target that was found, or the most of one
  MoveTable table_;
  FlatMap index_;
  std::vector<Label> labels_;
  std::vector<Price> least_to_go_;  // per label
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::vector<PlannedMove> moves_;
  std::uint32_t pushed_ = 0;
  std::size_t looked_at_ = 0;
};

struct PlannedStep {
  PlannedMove move;
  Layout before, after;
};

struct ExactPlan {
  bool found = false;
  Price price = kNoPrice;
  double peak_bytes = 0.0;
  std::vector<PlannedStep> steps;
  std::size_t moves = 0;  // that were looked at
  // The table that its bounds are from, and how many moves it takes to make it.
  std::uint64_t bound_pattern = 0;
  std::size_t moves_of_bound = 0;
  std::size_t followed = 0;  // steps of somebody else's plan that are moves of ours
};

// `memory_limit`: bytes that a rank may hold at once during a step; 0: any. `cache` may be null. A
// plan that costs more than `most` is not found. Throws OutsidePlanSpace, CostError.
[[nodiscard]] ExactPlan exact_plan(const CostModel& model, const TensorInfo& info,
                                   const Layout& source, const Layout& target, double memory_limit,
                                   BoundCache* cache, Price most = kNoPrice);

// What steps that somebody else planned cost. Each is the layout after it and the mesh dims of its
// group. `found` is false where one of them is no move of ours, or the last leaves another layout
// than `target`.
struct ForeignStep {
  std::vector<std::uint8_t> mesh_dims;
  Layout after;
};
[[nodiscard]] ExactPlan price_steps(const CostModel& model, const TensorInfo& info,
                                    const Layout& source, const Layout& target,
                                    std::span<const ForeignStep> steps);

}  // namespace shardprop
