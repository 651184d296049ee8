// One question to the core: an op's row table, its operands as they are, and torch's terms for what
// counts as a valid strategy (a row for each mesh dim) and which of them it takes.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "layout/layout.h"
#include "layout/mesh.h"
#include "rule/rule.h"
#include "torch_plan/redistribute.h"

namespace shardprop {

using Rows =
    std::array<std::uint16_t, kMaxMeshDims>;  // a strategy: one row of the table per mesh dim

struct Operand {
  enum class Where : std::uint8_t {
    kHere,     // on the mesh that computes
    kPinned,   // replicated on another mesh by right (torch's different_mesh_args): stays as it is
    kForeign,  // on another mesh without that right: no redistribution reaches it
  };
  Layout layout;
  TensorInfo info;
  // Operands with equal metadata (shape, stride, dtype) share one of torch's planners.
  int planner = 0;
  Where where = Where::kHere;
  // Operands whose symbolic sizes have the same product grow alike, and share this number.
  int growth = 0;
};

// What only the caller can say where sizes are expressions (torch.compile with dynamic shapes).
struct SizeOracle;

// An output or operand whose placements are what they are: an out= argument, or a tensor that the
// caller cannot move.
struct Fixed {
  int position;  // in a row of the table
  Layout layout;
};

struct Problem {
  Mesh mesh;
  bool member = true;  // is this rank in the mesh
  RowTable table;
  std::vector<Operand> operands;
  // Where cells of outputs have constraints on their sizes (see constraint.h); else empty.
  std::vector<std::vector<std::int64_t>> output_shapes;
  // The first `positional` operands are arguments, the rest keyword arguments: torch compares only
  // the former when it looks for the strategy that redistributes nothing.
  int positional = 0;
  bool in_place = false;
  std::vector<Fixed> fixed;
  bool allow_uneven = false;
  // False for the elements of a list op: there torch takes the first minimum, nothing else.
  bool prefers_no_redistribute = true;
  // What torch makes of strided shards in the strategies it prices: do they stand for a shard
  // order?
  bool strided_is_order = true;
  bool force_graph = false;
  // While tracing, torch makes a new graph planner for each price: no history.
  bool fresh_planners = false;
  Dialect dialect;
  std::span<const std::uint64_t> op_hashes;
  // The caller's own filter over whole strategies; asked lazily. Empty: everything passes.
  std::function<bool(const Rows&)> accepts;
  // Set if and only if some size of some operand is symbolic; see symbolic.h.
  const SizeOracle* sizes = nullptr;
};

enum class Verdict : std::uint8_t {
  kFound,
  kNoStrategy,         // every combination failed a filter
  kNoInPlaceStrategy,  // ... and some for moving what an in-place op must keep
  kUnreachable,        // torch's planner asserts on one of the prices
  kTooLarge,           // the search gave up: see kMaxNodes
};

struct Decision {
  Verdict verdict = Verdict::kNoStrategy;
  Rows rows{};
  double cost = 0.0;  // microseconds, summed over operands as Python sums
  std::vector<double> operand_costs;
  std::uint64_t nodes = 0;  // partial strategies looked at
};

// The built-in sum of Python over the operands' costs.
[[nodiscard]] double python_sum(std::span<const double> costs, bool compensated);

}  // namespace shardprop
