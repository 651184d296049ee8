// The order in which a CPython set of distinct elements iterates, from their hashes alone.
//
// torch's graph planner loops over Python sets of reduce ops and of strided shards; where two paths
// cost the same, the order of that loop decides. Follows Objects/setobject.c of CPython 3.10 to
// 3.14 (open addressing with linear probes); a test compares it with the running interpreter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardprop {

class PySetOrder {
 public:
  // Adds the next element, which is known to be new.
  void insert(std::uint64_t hash);

  // Indices of the elements (0 for the first inserted) in iteration order.
  [[nodiscard]] std::vector<int> order() const;

 private:
  struct Slot {
    std::uint64_t hash = 0;
    int element = -1;
  };
  static void place(std::vector<Slot>& table, Slot slot);

  std::vector<Slot> table_ = std::vector<Slot>(8);
  int size_ = 0;
};

// hash((first, second)) of CPython 3.8 and later for two small non-negative ints.
[[nodiscard]] std::uint64_t hash_int_pair(std::uint64_t first, std::uint64_t second);

}  // namespace shardprop
