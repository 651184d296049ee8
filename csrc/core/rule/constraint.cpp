#include "rule/constraint.h"

#include <algorithm>
#include <vector>

namespace shardprop {
namespace {

// The different numbers of elements that ranks hold.
using Sizes = std::vector<std::int64_t>;

void add(Sizes& sizes, std::int64_t size) {
  if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
}

// As torch.chunk: pieces of ceil(size / ranks), the last one shorter, and none for ranks beyond.
void add_chunks(Sizes& sizes, std::int64_t size, std::int64_t ranks) {
  const std::int64_t full = (size + ranks - 1) / ranks;
  const std::int64_t whole = size / full, rest = size % full;
  add(sizes, full);
  if (rest > 0) add(sizes, rest);
  if (whole + (rest > 0 ? 1 : 0) < ranks) add(sizes, 0);
}

}  // namespace

bool holds(const Constraint& constraint, std::int64_t size, std::span<const Cut> cuts,
           bool in_order) {
  Sizes sizes{size};
  for (const Cut& cut : cuts) {
    Sizes next;
    for (const std::int64_t held : sizes) {
      if (held % (cut.ranks * cut.split_factor) == 0) {
        // A strided shard is made of pieces: a merged dim must not be cut inside of any.
        if (held / (cut.ranks * cut.split_factor) % constraint.multiple != 0) return false;
        add(next, held / cut.ranks);
      } else if (cut.split_factor != 1 || !in_order) {
        return false;
      } else {
        add_chunks(next, held, cut.ranks);
      }
    }
    sizes = std::move(next);
  }
  if (constraint.even && sizes.size() > 1) return false;
  return std::all_of(sizes.begin(), sizes.end(), [&](std::int64_t held) {
    return held >= constraint.least && held % constraint.multiple == 0;
  });
}

bool may_hold(const Constraint& constraint, std::int64_t size, std::int64_t ranks) {
  // Ranks that hold equally many, or multiples, hold a multiple together; the one with the fewest
  // holds no more than the mean.
  if (constraint.even && size % ranks != 0) return false;
  if (size / ranks < constraint.least) return false;
  return size % constraint.multiple == 0;
}

}  // namespace shardprop
