#include "layout/set_order.h"

#include <bit>
#include <utility>

namespace shardprop {

void PySetOrder::place(std::vector<Slot>& table, Slot slot) {
  constexpr std::size_t kLinearProbes = 9;
  const std::size_t mask = table.size() - 1;
  std::uint64_t perturb = slot.hash;
  std::size_t i = slot.hash & mask;
  while (true) {
    const std::size_t probes = i + kLinearProbes <= mask ? kLinearProbes : 0;
    for (std::size_t at = i; at <= i + probes; ++at) {
      if (table[at].element < 0) {
        table[at] = slot;
        return;
      }
    }
    perturb >>= 5;
    i = (i * 5 + 1 + perturb) & mask;
  }
}

void PySetOrder::insert(std::uint64_t hash) {
  place(table_, {hash, size_++});
  if (static_cast<std::size_t>(size_) * 5 < (table_.size() - 1) * 3) return;
  std::vector<Slot> larger(std::bit_floor(static_cast<std::size_t>(size_) * 4) * 2);
  for (const Slot& slot : table_) {
    if (slot.element >= 0) place(larger, slot);
  }
  table_ = std::move(larger);
}

std::vector<int> PySetOrder::order() const {
  std::vector<int> elements;
  for (const Slot& slot : table_) {
    if (slot.element >= 0) elements.push_back(slot.element);
  }
  return elements;
}

std::uint64_t hash_int_pair(std::uint64_t first, std::uint64_t second) {
  constexpr std::uint64_t kPrime1 = 11400714785074694791u;
  constexpr std::uint64_t kPrime2 = 14029467366897019727u;
  constexpr std::uint64_t kPrime5 = 2870177450012600261u;
  std::uint64_t hash = kPrime5;
  for (const std::uint64_t lane : {first, second}) {
    hash = std::rotl(hash + lane * kPrime2, 31) * kPrime1;
  }
  return hash + (2 ^ (kPrime5 ^ 3527539u));
}

}  // namespace shardprop
