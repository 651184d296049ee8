#include "optimal/plan_bound.h"

namespace shardprop {
namespace {

// From a state of a relaxation, about.
constexpr std::size_t kMovesOfState = 16;

using BringsInAt = std::array<std::uint8_t, kMaxMeshDims>;

bool is_bounded(const PlanSpace& space) {
  return space.active() <= kMaxBoundedMeshDims && !space.model().callback;
}

std::uint8_t brings_in(Placement placement) {
  if (!placement.is_partial()) return kNothing;
  if (placement.partial_class() >= kFirstOtherClass) return kOthers;
  switch (placement.reduce_op()) {
    case kSum:
      return kSums;
    case kAvg:
    case kMin:
    case kMax:
      return kOthers;
    default:
      return kNothing;
  }
}

// What a layout is in the relaxation, good and bad being told by another layout.
RelaxedState simplified(const PlanSpace& space, State state, State other,
                        const PlanSpace::View& view_of_other) {
  RelaxedState simple = 0;
  for (int a = 0; a < space.active(); ++a) {
    const std::uint8_t code = PlanSpace::code_at(state, a);
    if (space.dim_of(code) >= 0) {
      simple = Relaxation::with(simple, a, kBad);
    } else if (space.placement(code).is_partial()) {
      simple = Relaxation::with(simple, a, kPending);
    }
  }
  // What both shard orders begin with: there code and place are the same.
  for (const PlanSpace::Cuts& cuts : view_of_other.cuts) {
    for (int i = 0; i < cuts.count; ++i) {
      const int a = cuts.by[i];
      if (PlanSpace::byte_at(state, a) != PlanSpace::byte_at(other, a)) break;
      simple = Relaxation::with(simple, a, kGood);
    }
  }
  return simple;
}

std::uint64_t pattern_of(const PlanSpace& space, RelaxedState start, bool backward,
                         const BringsInAt& brings) {
  std::uint64_t pattern = std::uint64_t{backward} << 63 | start;
  for (int a = 0; a < space.active(); ++a) {
    pattern |= static_cast<std::uint64_t>(brings[a]) << (24 + 2 * a);
  }
  return pattern;
}

std::shared_ptr<const BoundTable> table_of(const PlanSpace& space, RelaxedState start,
                                           bool backward, const BringsInAt& brings,
                                           std::uint64_t pattern, BoundCache* cache) {
  const BoundCache::Key key{Relaxation::bytes_of(space.info()), pattern};
  std::shared_ptr<const BoundTable> table = cache == nullptr ? nullptr : cache->find(key);
  if (table != nullptr) return table;
  Relaxation world(space, brings);
  table = std::make_shared<const BoundTable>(backward ? world.prices_to(start)
                                                      : world.prices_from(start));
  if (cache != nullptr) cache->put(key, table);
  return table;
}

}  // namespace

std::shared_ptr<const BoundTable> BoundCache::find(const Key& key) const {
  const std::scoped_lock lock(mutex_);
  const auto found = tables_.find(key);
  return found == tables_.end() ? nullptr : found->second;
}

void BoundCache::put(const Key& key, std::shared_ptr<const BoundTable> table) {
  const std::size_t bytes = table->size() * sizeof(Price);
  const std::scoped_lock lock(mutex_);
  if (bytes_ + bytes > kMaxBytes) {
    tables_.clear();
    bytes_ = 0;
  }
  if (tables_.emplace(key, std::move(table)).second) bytes_ += bytes;
}

std::size_t BoundCache::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

PlanBound::PlanBound(const PlanSpace& space, State target, BoundCache* cache)
    : space_(space), target_(target) {
  space.look(target, target_view_);
  if (!is_bounded(space)) return;
  BringsInAt brings{};
  for (int a = 0; a < space.active(); ++a) {
    brings[a] = brings_in(space.placement(target_view_.code[a]));
  }
  const RelaxedState start = simplified(space, target, target, target_view_);
  pattern_ = pattern_of(space, start, true, brings);
  table_ = table_of(space, start, true, brings, pattern_, cache);
}

std::size_t PlanBound::moves() const {
  return table_ == nullptr ? 0 : kMovesOfState * table_->size();
}

Price PlanBound::of(State state) const {
  return table_ == nullptr ? 0 : (*table_)[simplified(space_, state, target_, target_view_)];
}

SourceBound::SourceBound(const PlanSpace& space, State source, BoundCache* cache)
    : space_(space), source_(source) {
  space.look(source, source_view_);
  if (!is_bounded(space)) return;
  BringsInAt brings{};
  for (int a = 0; a < space.active(); ++a) {
    for (const std::uint8_t code : space.wanted(a)) brings[a] |= brings_in(space.placement(code));
  }
  const RelaxedState start = simplified(space, source, source, source_view_);
  table_ = table_of(space, start, false, brings, pattern_of(space, start, false, brings), cache);
}

Price SourceBound::of(State state) const {
  return table_ == nullptr ? 0 : (*table_)[simplified(space_, state, source_, source_view_)];
}

}  // namespace shardprop
