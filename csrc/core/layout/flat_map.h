// An open-addressing map from 64-bit keys to 32-bit values that only grows. Knows nothing of
// layouts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardprop {

class FlatMap {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // The value of `key`, or kNone.
  [[nodiscard]] std::uint32_t find(std::uint64_t key) const { return slots_[locate(key)].value; }

  // Stores `value` for a key that is not there yet.
  void insert(std::uint64_t key, std::uint32_t value) {
    if (++size_ * 2 > slots_.size()) grow();
    slots_[locate(key)] = {key, value};
  }

  [[nodiscard]] std::size_t bytes() const { return slots_.capacity() * sizeof(Slot); }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t value = kNone;
  };

  [[nodiscard]] std::size_t locate(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = ((key ^ (key >> 29)) * 0x9E3779B97F4A7C15u >> 32) & mask;
    while (slots_[i].value != kNone && slots_[i].key != key) i = (i + 1) & mask;
    return i;
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.value != kNone) slots_[locate(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(512);
  std::size_t size_ = 0;
};

}  // namespace shardprop
