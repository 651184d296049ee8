// The constraint of a cell of a rule on the shards that a strategy makes: equally many elements on
// every rank, a least number, a multiple.
//
// It is asked of the whole strategy, since several mesh dims may cut one tensor dim. Worked
// example: 12 elements on a mesh of 2 x 3, both cutting them. Each rank has 2: even, at least 2, a
// multiple of 2. Of 10 elements the first cut leaves 5 and 5, the second 2, 2, 1 of each: not even,
// at least 1.
#pragma once

#include <cstdint>
#include <span>

namespace shardprop {

struct Constraint {
  bool even = false;
  std::int64_t least = 0, multiple = 1;  // so: nothing is asked

  friend bool operator==(const Constraint&, const Constraint&) = default;
};

// A mesh dim that cuts a tensor dim: into how many, and the split factor (1 for a plain shard).
struct Cut {
  std::int64_t ranks, split_factor;
};

// Does the constraint hold on every rank for `size` elements cut by these mesh dims, the first one
// first, into chunks as torch makes them (all of one size but for the last ones)? `in_order`: they
// are cut in this order. If not, or for a strided shard, only cuts into equal parts are known; then
// the answer is no where parts would differ. Each piece of a strided shard is to be a multiple.
[[nodiscard]] bool holds(const Constraint& constraint, std::int64_t size, std::span<const Cut> cuts,
                         bool in_order);

// Could it hold if mesh dims of so many ranks together, and maybe others, cut `size` elements?
[[nodiscard]] bool may_hold(const Constraint& constraint, std::int64_t size, std::int64_t ranks);

}  // namespace shardprop
