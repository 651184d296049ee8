// Decisions where sizes are expressions in the caller: torch.compile with dynamic shapes.
//
// The core sees each such size as the number it is now (`TensorInfo::symbolic` marks the dim).
// Every strategy is looked at, in torch's order, because torch asks of every one whether its shards
// fit, and each answer it gets becomes a guard of the compiled program.
//
// torch also guards the comparisons of prices, some dozens of them. Here only those are guarded
// that other sizes could turn; see guards.h. While the guards hold, torch would choose the same
// strategy for the sizes at hand.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "search/enumerate.h"
#include "search/problem.h"

namespace shardprop {

struct SizeOracle {
  // Does tensor dim `tensor_dim` of `operand` have `pieces` elements or more, as torch asks?
  std::function<bool(int operand, int tensor_dim, std::int64_t pieces)> holds;
  // Of one or more strategies whose prices agree but for rounding, in torch's order: the one torch
  // takes. Its expressions may cancel where our numbers differ in the last bit.
  std::function<std::size_t(std::span<const Strategy>)> cheapest;
  // To be guarded: the product of the symbolic sizes of `operand` stays within these bounds.
  std::function<void(int operand, std::optional<std::int64_t> least,
                     std::optional<std::int64_t> most)>
      keep_product;
  // To be guarded: `chosen` costs less than each of `before`, and no more than any of `after`.
  std::function<void(const Strategy& chosen, std::span<const Strategy> before,
                     std::span<const Strategy> after)>
      keep_cheapest;
};

// Strategies looked at before the search gives up with Verdict::kTooLarge.
inline constexpr std::size_t kMaxSymbolicStrategies = std::size_t{1} << 20;

// `problem.sizes` is set, and no price depends on the history of torch's graph planners.
[[nodiscard]] Decision decide_symbolic(const Problem& problem);

}  // namespace shardprop
