#include "optimal/relaxation.h"

#include <bit>
#include <cmath>

namespace shardprop {
namespace {

bool is_sharded(RelaxedState simple) { return simple == kGood || simple == kBad; }

}  // namespace

double Relaxation::bytes_of(const TensorInfo& info) {
  auto bytes = static_cast<double>(info.itemsize);
  for (const std::int64_t size : info.shape) bytes *= static_cast<double>(size);
  return bytes;
}

Relaxation::Relaxation(const PlanSpace& space,
                       const std::array<std::uint8_t, kMaxMeshDims>& brings_in)
    : space_(space), brings_in_(brings_in), active_(space.active()) {
  for (std::size_t g = 0; g < space.model().groups.size(); ++g) {
    masks_.push_back(space.mask_of(static_cast<int>(g)));
  }
  const double whole = bytes_of(space.info());
  bytes_of_.resize(std::size_t{1} << active_);
  for (unsigned sharded = 0; sharded < bytes_of_.size(); ++sharded) {
    std::int64_t pieces = 1;
    for (int a = 0; a < active_; ++a) {
      if (sharded >> a & 1u) pieces *= space.ranks(a);
    }
    bytes_of_[sharded] = whole / static_cast<double>(pieces);
  }
}

BoundTable Relaxation::prices(RelaxedState start, bool backward) {
  backward_ = backward;
  table_.assign(std::size_t{1} << (2 * active_), kNoPrice);
  table_[start] = 0;
  queue_.push({0, start});
  while (!queue_.empty()) {
    const Entry entry = queue_.top();
    queue_.pop();
    if (entry.price > table_[entry.state]) continue;
    near_ = entry.state;
    price_ = entry.price;
    for (std::size_t g = 0; g < masks_.size(); ++g) collectives(g);
    for (int a = 0; a < active_; ++a) local_steps(a);
  }
  return std::move(table_);
}

void Relaxation::offer(RelaxedState far, Price price) {
  if (price >= table_[far]) return;
  table_[far] = price;
  queue_.push({price, far});
}

double Relaxation::bytes(RelaxedState state) const {
  unsigned sharded = 0;
  for (int a = 0; a < active_; ++a) sharded |= is_sharded(at(state, a)) ? 1u << a : 0u;
  return bytes_of_[sharded];
}

bool Relaxation::is(RelaxedState state, unsigned mask, Pattern pattern) const {
  for (int a = 0; a < active_; ++a) {
    if (!(mask >> a & 1u)) continue;
    const RelaxedState simple = at(state, a);
    const bool fits = pattern == Pattern::kHeld      ? simple == kHeld
                      : pattern == Pattern::kPending ? simple == kPending
                                                     : is_sharded(simple);
    if (!fits) return false;
  }
  return true;
}

// Every state that has the pattern on these mesh dims and is `near_` elsewhere.
void Relaxation::each(unsigned mask, Pattern pattern, auto visit) const {
  unsigned bad = 0;
  do {
    RelaxedState far = near_;
    for (int a = 0; a < active_; ++a) {
      if (!(mask >> a & 1u)) continue;
      far = with(far, a,
                 pattern == Pattern::kHeld      ? kHeld
                 : pattern == Pattern::kPending ? kPending
                 : bad >> a & 1u                ? kBad
                                                : kGood);
    }
    visit(far);
    bad = (bad - mask) & mask;
  } while (bad != 0 && pattern == Pattern::kSharded);
}

void Relaxation::collectives(std::size_t group) {
  collective(group, Collective::kAllGather, Pattern::kSharded, Pattern::kHeld);
  collective(group, Collective::kReduceScatter, Pattern::kPending, Pattern::kSharded);
  collective(group, Collective::kAllReduce, Pattern::kPending, Pattern::kHeld);
  collective(group, Collective::kAllToAll, Pattern::kSharded, Pattern::kSharded);
  if (std::popcount(masks_[group]) > 1) permute(group);
}

void Relaxation::collective(std::size_t group, Collective kind, Pattern from, Pattern to) {
  if (!is(near_, masks_[group], backward_ ? to : from)) return;
  const Group& ranks_of = space_.group(static_cast<int>(group));
  const auto ranks = static_cast<double>(ranks_of.ranks);
  const CostModel& model = space_.model();
  each(masks_[group], backward_ ? from : to, [&](RelaxedState far) {
    if (far == near_) return;
    const double held = bytes(backward_ ? far : near_);
    double wire = (ranks - 1) * held;
    if (kind == Collective::kAllReduce) wire = std::floor(2 * wire / ranks);
    if (kind == Collective::kReduceScatter) wire /= ranks;
    if (kind == Collective::kAllToAll && !model.all_to_all_gathers) wire /= ranks;
    std::int64_t ps = model.least_communication(kind, ranks_of, wire);
    if (kind == Collective::kAllReduce) ps += model.local_work(1, 2 * held);
    if (kind == Collective::kAllToAll) ps += model.local_work(2, 4 * held);
    if (ps < kMaxPicoseconds) offer(far, add(price_, price_of(ps, 1)));
  });
}

// Other mesh dims of the group may cut as much. A mesh dim outside it may change between good and
// bad, as what cuts before it does; from far away bad costs no less than good, so that only good
// ones have to be followed there.
void Relaxation::permute(std::size_t group) {
  for (int a = 0; a < active_; ++a) {
    if (masks_[group] >> a & 1u && at(near_, a) == kPending) return;
  }
  const std::int64_t ps = space_.model().least_communication(
      Collective::kPermute, space_.group(static_cast<int>(group)), bytes(near_));
  if (ps < kMaxPicoseconds) each_arrangement(group, 0, near_, add(price_, price_of(ps, 1)));
}

void Relaxation::each_arrangement(std::size_t group, int active, RelaxedState far, Price price) {
  if (active == active_) {
    if (price < table_[far] && bytes(far) == bytes(near_)) offer(far, price);
    return;
  }
  each_arrangement(group, active + 1, far, price);
  const RelaxedState now = at(near_, active);
  const bool inside = masks_[group] >> active & 1u;
  for (const RelaxedState simple : {kHeld, kGood, kBad}) {
    if (simple == now || (!inside && (simple != kBad || now != kGood))) continue;
    each_arrangement(group, active + 1, with(far, active, simple), price);
  }
}

void Relaxation::local_steps(int active) {
  local(active, Pattern::kHeld, Pattern::kSharded, 1, 0.0, 2.0);
  if (brings_in_[active] & kOthers) local(active, Pattern::kHeld, Pattern::kPending, 0, 0.0, 0.0);
  if (!(brings_in_[active] & kSums)) return;
  local(active, Pattern::kHeld, Pattern::kPending, 1, 2.0, 0.0);
  local(active, Pattern::kSharded, Pattern::kPending, 2, 2.0, 1.0);
}

void Relaxation::local(int active, Pattern from, Pattern to, int kernels, double per_byte_before,
                       double per_byte_after) {
  const unsigned mask = 1u << active;
  if (!is(near_, mask, backward_ ? to : from)) return;
  each(mask, backward_ ? from : to, [&](RelaxedState far) {
    const double before = bytes(backward_ ? far : near_), after = bytes(backward_ ? near_ : far);
    const std::int64_t ps =
        kernels == 0
            ? 0
            : space_.model().local_work(kernels, per_byte_before * before + per_byte_after * after);
    if (ps < kMaxPicoseconds) offer(far, add(price_, price_of(ps, 0)));
  });
}

}  // namespace shardprop
