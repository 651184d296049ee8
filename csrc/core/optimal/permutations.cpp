#include "optimal/permutations.h"

namespace shardprop {

std::span<const State> Permutations::from(State state, const PlanSpace::View& view, unsigned mask) {
  view_ = &view;
  group_ = mask;
  before_ = state;
  stretches_.clear();
  found_.clear();
  for (int dim = 0; dim < space_.dims(); ++dim) find_stretches(dim);
  if (stretches_.empty()) return {};
  emptied_ = state;
  for (int a = 0; a < space_.active(); ++a) {
    if (group_ >> a & 1u) emptied_ = PlanSpace::with(emptied_, a, PlanSpace::kReplicated, 0);
  }
  free_ = group_;
  fill(0, 1);
  return found_;
}

void Permutations::find_stretches(int dim) {
  const PlanSpace::Cuts& cuts = view_->cuts[dim];
  if (space_.size(dim) % space_.pieces(*view_, dim) != 0) {
    for (int i = 0; i < cuts.count; ++i) group_ &= ~(1u << cuts.by[i]);  // stays as it is
    return;
  }
  Stretch stretch{dim, 0, 1, {}};
  const auto end = [&] {
    if (stretch.pieces > 1) stretches_.push_back(stretch);
    stretch = {dim, stretch.others + 1, 1, {}};
  };
  for (int i = 0; i < cuts.count; ++i) {
    if (group_ >> cuts.by[i] & 1u) {
      stretch.pieces *= space_.ranks(cuts.by[i]);
    } else {
      end();
    }
  }
  end();
}

// Gives stretch `index`, of which the group cuts `pieces` so far, one more mesh dim, in every way.
void Permutations::fill(std::size_t index, std::int64_t pieces) {
  if (index == stretches_.size()) {
    const State state = filled();
    if (state != before_) found_.push_back(state);
    return;
  }
  Stretch& stretch = stretches_[index];
  if (pieces == stretch.pieces) {
    fill(index + 1, 1);
    return;
  }
  for (int a = 0; a < space_.active(); ++a) {
    const std::int64_t more = pieces * space_.ranks(a);
    if (!(free_ >> a & 1u) || stretch.pieces % more != 0) continue;
    free_ &= ~(1u << a);
    stretch.filled.by[stretch.filled.count++] = static_cast<std::uint8_t>(a);
    fill(index, more);
    --stretch.filled.count;
    free_ |= 1u << a;
  }
}

State Permutations::filled() const {
  State state = emptied_;
  for (std::size_t first = 0; first < stretches_.size();) {
    const int dim = stretches_[first].dim;
    const PlanSpace::Cuts& before = view_->cuts[dim];
    int place = 0, others = 0;
    const auto put_stretch = [&] {
      if (first == stretches_.size()) return;
      const Stretch& stretch = stretches_[first];
      if (stretch.dim != dim || stretch.others != others) return;
      for (int i = 0; i < stretch.filled.count; ++i) {
        state = PlanSpace::with(state, stretch.filled.by[i], space_.shard_of(dim), place++);
      }
      ++first;
    };
    put_stretch();
    for (int i = 0; i < before.count; ++i) {
      const int a = before.by[i];
      if (group_ >> a & 1u) continue;
      state = PlanSpace::with(state, a, view_->code[a], place++);
      ++others;
      put_stretch();
    }
  }
  return state;
}

}  // namespace shardprop
