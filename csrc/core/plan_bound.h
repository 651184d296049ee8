// A lower bound on the price from any layout to one target: the price in a simpler world.
//
// In that world a mesh dim is replicated, partial, sharded as the target has it (it is in the part
// of a shard order that both have in common), or sharded otherwise; any shard can be reached or
// left at any time, and every size divides. Each move of the real world is a move there that costs
// no more, so prices there bound prices here, and fall along a move by no more than its price.
// There are 4^n such states for n mesh dims, few enough to know them all.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "plan_space.h"

namespace shardprop {

// The least prices to one target, by simple state (two bits per active mesh dim).
using BoundTable = std::vector<Price>;

// Tables that were made, by what they depend on beside the cost model. Safe to use from threads.
class BoundCache {
 public:
  using Key = std::pair<double, std::uint64_t>;  // bytes of the tensor, pattern of the target

  [[nodiscard]] std::shared_ptr<const BoundTable> find(const Key& key) const;
  void put(const Key& key, std::shared_ptr<const BoundTable> table);

 private:
  static constexpr std::size_t kCapacity = 1024;
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return std::hash<double>()(key.first) * 31 + std::hash<std::uint64_t>()(key.second);
    }
  };
  mutable std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<const BoundTable>, Hash> tables_;
};

class PlanBound {
 public:
  // `space` must outlive the bound. Beyond kMaxActive mesh dims, or with prices that only the
  // caller knows, the bound is 0. `cache` may be null.
  PlanBound(const PlanSpace& space, State target, BoundCache* cache);

  [[nodiscard]] Price of(State state) const;
  [[nodiscard]] State target() const { return target_; }

 private:
  static constexpr int kMaxActive = 6;

  const PlanSpace& space_;
  State target_;
  PlanSpace::View target_view_;
  std::shared_ptr<const BoundTable> table_;
};

}  // namespace shardprop
