// Lower bounds on the price from any layout to one target, and from one source to any layout: the
// prices of a relaxation (relaxation.h). Along a move, a bound falls by no more than its
// price.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "optimal/relaxation.h"

namespace shardprop {

// Tables that were made under one cost model. Safe to use from threads.
class BoundCache {
 public:
  // Bytes of the tensor; the pattern that the table starts from, and which way.
  using Key = std::pair<double, std::uint64_t>;

  [[nodiscard]] std::shared_ptr<const BoundTable> find(const Key& key) const;
  void put(const Key& key, std::shared_ptr<const BoundTable> table);
  // Of all tables.
  [[nodiscard]] std::size_t bytes() const;

 private:
  // A table takes 512 bytes for 3 mesh dims, 32 KiB for 6.
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 20;
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return std::hash<double>()(key.first) * 31 + std::hash<std::uint64_t>()(key.second);
    }
  };
  mutable std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<const BoundTable>, Hash> tables_;
  std::size_t bytes_ = 0;
};

// Beyond so many mesh dims, or with prices that only the caller knows, bounds are 0.
inline constexpr int kMaxBoundedMeshDims = 6;

// To one target.
class PlanBound {
 public:
  // `space` must outlive the bound; `cache` may be null.
  PlanBound(const PlanSpace& space, State target, BoundCache* cache);

  [[nodiscard]] Price of(State state) const;
  [[nodiscard]] State target() const { return target_; }
  // Which table it reads, of those for tensors of one size.
  [[nodiscard]] std::uint64_t pattern() const { return pattern_; }
  // How many moves it takes to make that, whether or not it was known.
  [[nodiscard]] std::size_t moves() const;

 private:
  const PlanSpace& space_;
  State target_;
  PlanSpace::View target_view_;
  std::uint64_t pattern_ = 0;
  std::shared_ptr<const BoundTable> table_;
};

// From one source, to every layout that has some of the partials that the space wants.
class SourceBound {
 public:
  SourceBound(const PlanSpace& space, State source, BoundCache* cache);

  [[nodiscard]] Price of(State state) const;

 private:
  const PlanSpace& space_;
  State source_;
  PlanSpace::View source_view_;
  std::shared_ptr<const BoundTable> table_;
};

}  // namespace shardprop
