#include "plan_bound.h"

#include <bit>
#include <cmath>
#include <queue>

namespace shardprop {
namespace {

// What a mesh dim is in the simple world.
enum Simple : unsigned { kHeld, kPending, kGood, kBad };  // kHeld: replicated

// What the target asks of a mesh dim.
enum Goal : unsigned { kWhole, kSharded, kKeptPartial, kSumPartial, kOtherPartial };

bool is_simple_shard(unsigned simple) { return simple == kGood || simple == kBad; }

class TableMaker {
 public:
  TableMaker(const PlanSpace& space, double bytes, const std::array<Goal, kMaxMeshDims>& goal)
      : space_(space),
        goal_(goal),
        active_(space.active()),
        table_(std::size_t{1} << (2 * active_), kNoPrice) {
    bytes_of_.resize(std::size_t{1} << active_);
    for (unsigned sharded = 0; sharded < bytes_of_.size(); ++sharded) {
      std::int64_t pieces = 1;
      for (int a = 0; a < active_; ++a) {
        if (sharded >> a & 1u) pieces *= space.ranks(a);
      }
      bytes_of_[sharded] = bytes / static_cast<double>(pieces);
    }
    for (std::size_t g = 0; g < space.model().groups.size(); ++g) masks_.push_back(mask_of(g));
  }

  BoundTable run() {
    unsigned target = 0;
    for (int a = 0; a < active_; ++a) {
      const unsigned simple = goal_[a] == kWhole ? kHeld : goal_[a] == kSharded ? kGood : kPending;
      target |= simple << (2 * a);
    }
    offer(target, 0);
    while (!queue_.empty()) {
      const auto [price, state] = queue_.top();
      queue_.pop();
      if (price > table_[state]) continue;
      state_ = state;
      price_ = price;
      for (std::size_t g = 0; g < masks_.size(); ++g) before_collectives(static_cast<int>(g));
      for (int a = 0; a < active_; ++a) before_local_steps(a);
    }
    return std::move(table_);
  }

 private:
  unsigned mask_of(std::size_t g) const {
    unsigned mask = 0;
    for (const std::uint8_t m : space_.group(static_cast<int>(g)).mesh_dims) {
      for (int a = 0; a < active_; ++a) mask |= space_.mesh_dim(a) == m ? 1u << a : 0u;
    }
    return mask;
  }

  static unsigned at(unsigned state, int a) { return state >> (2 * a) & 3u; }
  static unsigned with(unsigned state, int a, unsigned simple) {
    return (state & ~(3u << (2 * a))) | simple << (2 * a);
  }
  unsigned sharded(unsigned state) const {
    unsigned mask = 0;
    for (int a = 0; a < active_; ++a) mask |= is_simple_shard(at(state, a)) ? 1u << a : 0u;
    return mask;
  }
  double bytes(unsigned state) const { return bytes_of_[sharded(state)]; }

  void offer(unsigned state, Price price) {
    if (price >= table_[state]) return;
    table_[state] = price;
    queue_.push({price, state});
  }

  // States from which one collective over group g leads to `state_`.
  void before_collectives(int g) {
    bool held = true, shards = true, none_pending = true;
    for (int a = 0; a < active_; ++a) {
      if (!(masks_[g] >> a & 1u)) continue;
      const unsigned simple = at(state_, a);
      held &= simple == kHeld;
      shards &= is_simple_shard(simple);
      none_pending &= simple != kPending;
    }
    if (held) each_sharding(g, [&](unsigned before) { gather(g, before); });
    if (held) reduce(g);
    if (shards) scatter(g);
    if (shards) each_sharding(g, [&](unsigned before) { exchange(g, before); });
    if (none_pending && std::popcount(masks_[g]) > 1) permute(g);
  }

  // Every way to have all mesh dims of the group sharded.
  void each_sharding(int g, auto visit) {
    unsigned subset = 0;
    do {
      unsigned before = state_;
      for (int a = 0; a < active_; ++a) {
        if (masks_[g] >> a & 1u) before = with(before, a, subset >> a & 1u ? kBad : kGood);
      }
      visit(before);
      subset = (subset - masks_[g]) & masks_[g];
    } while (subset != 0);
  }

  void send(Collective kind, int g, unsigned before, double wire, int kernels, double traffic) {
    const CostModel& model = space_.model();
    const std::int64_t ps = model.communication(kind, space_.group(g), wire) +
                            (kernels > 0 ? model.local_work(kernels, traffic) : 0);
    offer(before, ps >= kMaxPicoseconds ? kNoPrice : add(price_, price_of(ps, 1)));
  }

  void gather(int g, unsigned before) {
    const auto ranks = static_cast<double>(space_.group(g).ranks);
    send(Collective::kAllGather, g, before, (ranks - 1) * bytes(before), 0, 0.0);
  }

  unsigned all_pending(int g) const {
    unsigned before = state_;
    for (int a = 0; a < active_; ++a) {
      if (masks_[g] >> a & 1u) before = with(before, a, kPending);
    }
    return before;
  }

  void reduce(int g) {
    const unsigned before = all_pending(g);
    const auto ranks = static_cast<double>(space_.group(g).ranks);
    const double held = bytes(before);
    send(Collective::kAllReduce, g, before, std::floor(2 * (ranks - 1) * held / ranks), 1,
         2 * held);
  }

  void scatter(int g) {
    const unsigned before = all_pending(g);
    const auto ranks = static_cast<double>(space_.group(g).ranks);
    send(Collective::kReduceScatter, g, before, (ranks - 1) * bytes(before) / ranks, 0, 0.0);
  }

  void exchange(int g, unsigned before) {
    if (before == state_) return;
    const auto ranks = static_cast<double>(space_.group(g).ranks);
    const double share = space_.model().all_to_all_gathers ? 1.0 : ranks;
    const double held = bytes(before);
    send(Collective::kAllToAll, g, before, (ranks - 1) * held / share, 2, 4 * held);
  }

  // Other mesh dims of the group may cut as much. A mesh dim outside it may have become good, what
  // cuts before it being right now; that it may become bad adds nothing, for then it is dearer.
  void permute(int g) {
    const double held = bytes(state_);
    const std::int64_t ps =
        space_.model().communication(Collective::kPermute, space_.group(g), held);
    if (ps >= kMaxPicoseconds) return;
    const Price price = add(price_, price_of(ps, 1));
    each_arrangement(g, 0, state_, [&](unsigned before) {
      if (price < table_[before] && bytes(before) == held) offer(before, price);
    });
  }

  void each_arrangement(int g, int a, unsigned before, auto visit) {
    if (a == active_) return visit(before);
    each_arrangement(g, a + 1, before, visit);
    const bool inside = masks_[g] >> a & 1u;
    for (const unsigned simple : {kHeld, kGood, kBad}) {
      if (simple == at(state_, a) || (!inside && (simple != kBad || at(state_, a) != kGood))) {
        continue;
      }
      each_arrangement(g, a + 1, with(before, a, simple), visit);
    }
  }

  void before_local_steps(int a) {
    const CostModel& model = space_.model();
    const auto local = [&](unsigned before, int kernels, double traffic) {
      const std::int64_t ps = kernels > 0 ? model.local_work(kernels, traffic) : 0;
      offer(before, add(price_, price_of(ps, 0)));
    };
    const double held = bytes(state_);
    if (is_simple_shard(at(state_, a))) local(with(state_, a, kHeld), 1, 2 * held);
    if (at(state_, a) != kPending) return;
    if (goal_[a] == kOtherPartial) local(with(state_, a, kHeld), 0, 0.0);
    if (goal_[a] != kSumPartial) return;
    local(with(state_, a, kHeld), 1, 2 * held);
    for (const unsigned shard : {kGood, kBad}) {
      const unsigned before = with(state_, a, shard);
      local(before, 2, held + 2 * bytes(before));
    }
  }

  struct Entry {
    Price price;
    unsigned state;
    bool operator>(const Entry& other) const { return price > other.price; }
  };

  const PlanSpace& space_;
  const std::array<Goal, kMaxMeshDims>& goal_;
  int active_;
  BoundTable table_;
  std::vector<double> bytes_of_;  // by the mesh dims that are sharded, as bits
  std::vector<unsigned> masks_;   // per group
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  unsigned state_ = 0;
  Price price_ = 0;
};

Goal goal_of(const PlanSpace& space, const PlanSpace::View& target, int a) {
  const std::uint8_t code = target.code[a];
  if (space.dim_of(code) >= 0) return kSharded;
  const Placement placement = space.placement(code);
  if (!placement.is_partial()) return kWhole;  // opaque ones never change
  if (placement.partial_class() != 0) return kKeptPartial;
  switch (placement.reduce_op()) {
    case kSum:
      return kSumPartial;
    case kAvg:
    case kMin:
    case kMax:
      return kOtherPartial;
    default:
      return kKeptPartial;
  }
}

}  // namespace

std::shared_ptr<const BoundTable> BoundCache::find(const Key& key) const {
  const std::scoped_lock lock(mutex_);
  const auto found = tables_.find(key);
  return found == tables_.end() ? nullptr : found->second;
}

void BoundCache::put(const Key& key, std::shared_ptr<const BoundTable> table) {
  const std::scoped_lock lock(mutex_);
  if (tables_.size() >= kCapacity) tables_.clear();
  tables_.emplace(key, std::move(table));
}

PlanBound::PlanBound(const PlanSpace& space, State target, BoundCache* cache)
    : space_(space), target_(target) {
  space.look(target, target_view_);
  if (space.active() > kMaxActive || space.model().callback) return;
  double bytes = static_cast<double>(space.info().itemsize);
  for (const std::int64_t size : space.info().shape) bytes *= static_cast<double>(size);
  std::array<Goal, kMaxMeshDims> goal{};
  std::uint64_t pattern = 0;
  for (int a = 0; a < space.active(); ++a) {
    goal[a] = goal_of(space, target_view_, a);
    pattern |= static_cast<std::uint64_t>(goal[a]) << (4 * a);
  }
  const BoundCache::Key key{bytes, pattern};
  if (cache != nullptr) table_ = cache->find(key);
  if (table_ != nullptr) return;
  table_ = std::make_shared<const BoundTable>(TableMaker(space, bytes, goal).run());
  if (cache != nullptr) cache->put(key, table_);
}

Price PlanBound::of(State state) const {
  if (table_ == nullptr) return 0;
  std::size_t simple = 0;
  for (int a = 0; a < space_.active(); ++a) {
    const std::uint8_t code = PlanSpace::code_at(state, a);
    if (space_.dim_of(code) >= 0) {
      simple |= static_cast<std::size_t>(kBad) << (2 * a);
    } else if (space_.placement(code).is_partial()) {
      simple |= static_cast<std::size_t>(kPending) << (2 * a);
    }
  }
  // What both shard orders begin with: there code and place are the same.
  for (const PlanSpace::Cuts& cuts : target_view_.cuts) {
    for (int i = 0; i < cuts.count; ++i) {
      const int a = cuts.by[i];
      if (PlanSpace::byte_at(state, a) != PlanSpace::byte_at(target_, a)) break;
      simple ^= static_cast<std::size_t>(kBad ^ kGood) << (2 * a);
    }
  }
  return (*table_)[simple];
}

}  // namespace shardprop
