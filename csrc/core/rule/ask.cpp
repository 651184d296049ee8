#include "rule/ask.h"

#include <algorithm>
#include <vector>

#include "search/problem.h"

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

std::int64_t size_at(const Problem& problem, int position, int tensor_dim) {
  const int outputs = problem.table.outputs;
  const auto& shape = position < outputs ? problem.output_shapes[position]
                                         : problem.operands[position - outputs].info.shape;
  return shape[tensor_dim];
}

bool cut_in_order(const Problem& problem, int position) {
  if (position < problem.table.outputs) return true;
  const Layout& layout = problem.operands[position - problem.table.outputs].layout;
  return !layout.ordered || has_default_order(layout);
}

bool ask_holds(const Problem& problem, std::span<const std::uint16_t> rows, int position,
               const Ask& ask, int tensor_dim) {
  std::array<Cut, kMaxMeshDims> cuts;
  std::size_t count = 0;
  for (int m = 0; m < problem.mesh.ndim; ++m) {
    const Placement cell = problem.table.at(rows[m], position);
    if (!cell.is_shard_like() || cell.dim != tensor_dim) continue;
    cuts[count++] = {problem.mesh.size[m], cell.is_strided() ? std::int64_t{cell.value} : 1};
  }
  return holds(ask, size_at(problem, position, tensor_dim), {cuts.data(), count},
               cut_in_order(problem, position));
}

}  // namespace

bool holds(const Ask& ask, std::int64_t size, std::span<const Cut> cuts, bool in_order) {
  Sizes sizes{size};
  for (const Cut& cut : cuts) {
    Sizes next;
    for (const std::int64_t held : sizes) {
      if (held % (cut.ranks * cut.split_factor) == 0) {
        // A strided shard is made of pieces: a merged dim must not be cut inside of any.
        if (held / (cut.ranks * cut.split_factor) % ask.multiple != 0) return false;
        add(next, held / cut.ranks);
      } else if (cut.split_factor != 1 || !in_order) {
        return false;
      } else {
        add_chunks(next, held, cut.ranks);
      }
    }
    sizes = std::move(next);
  }
  if (ask.even && sizes.size() > 1) return false;
  return std::all_of(sizes.begin(), sizes.end(), [&](std::int64_t held) {
    return held >= ask.least && held % ask.multiple == 0;
  });
}

bool may_hold(const Ask& ask, std::int64_t size, std::int64_t ranks) {
  // Ranks that hold equally many, or multiples, hold a multiple together; the one with the fewest
  // holds no more than the mean.
  if (ask.even && size % ranks != 0) return false;
  if (size / ranks < ask.least) return false;
  return size % ask.multiple == 0;
}

bool asks_hold(const Problem& problem, std::span<const std::uint16_t> rows) {
  const RowTable& table = problem.table;
  if (table.asks.empty()) return true;
  for (int m = 0; m < problem.mesh.ndim; ++m) {
    for (int p = 0; p < table.width(); ++p) {
      const Ask* ask = table.asks.of(rows[m] * table.width() + p);
      if (ask == nullptr) continue;
      if (!ask_holds(problem, rows, p, *ask, table.at(rows[m], p).dim)) return false;
    }
  }
  return true;
}

}  // namespace shardprop
