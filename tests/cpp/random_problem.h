// Random problems for differential tests: row tables with every kind of cell, operands with every
// kind of layout, small enough to enumerate.
#pragma once

#include <random>

#include "search/problem.h"

namespace shardprop::testing {

class RandomProblem {
 public:
  explicit RandomProblem(std::uint64_t seed) : random_(seed) {}

  Problem next();
  // Rows that ask something of the shards they make, here and there.
  Problem next_that_asks();

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  Placement placement(int tensor_dims, bool strided);
  Operand operand(const Mesh& mesh, bool strided);

  std::mt19937_64 random_;
};

}  // namespace shardprop::testing
