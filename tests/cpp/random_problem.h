// Random problems for differential tests: row tables with every kind of cell, operands with every
// kind of layout, small enough to enumerate.
#pragma once

#include <cstdint>
#include <random>

#include "search/problem.h"

namespace shardprop::testing {

// Any that differ: `Problem::op_hashes` of problems that come from no program.
inline constexpr std::uint64_t kOpHashes[] = {11, 22, 33, 44, 55, 66, 77, 88};

// x: f32[tokens, 1024] and w: f32[1024, 1024], each cut on its own dim of 8 ranks: one is to be
// gathered.
[[nodiscard]] Problem gather_one(std::int64_t tokens);

class RandomProblem {
 public:
  explicit RandomProblem(std::uint64_t seed) : random_(seed) {}

  Problem next();
  // Rows that ask something of the shards they make, here and there.
  Problem next_with_constraints();

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  Placement placement(int tensor_dims, bool strided);
  Operand operand(const Mesh& mesh, bool strided);

  std::mt19937_64 random_;
};

}  // namespace shardprop::testing
