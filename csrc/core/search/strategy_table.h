// Every strategy of an op for operands that may come in any of several layouts, as numbers: what a
// planner of whole graphs asks for. Its sibling enumerate.h walks the strategies of one decision,
// whose operands are where they are.
//
// What depends on where operands are is asked here of all their layouts at once: an in-place op
// keeps the layout of what it writes, whichever that is, and an operand that is too small for a
// strategy's shards is let through if one of its layouts is the one wanted. (torch does so for some
// ops: the shards are there, and nothing has to be cut.)
#pragma once

#include <vector>

#include "search/enumerate.h"
#include "search/problem.h"

namespace shardprop {

// An output that is written into an operand, and so has to be placed like it.
struct WrittenInto {
  int output, operand;
};

struct StrategyTerms {
  std::vector<WrittenInto> written;
  std::vector<std::vector<Layout>> producers;  // per operand: the layouts it may come in
};

struct StrategyTable {
  static constexpr std::int32_t kAbsent = -1;
  // An example of where a layout occurs.
  struct Example {
    Rows rows;
    int position;  // outputs, then operands
  };

  std::size_t strategies = 0;
  // Strategy after strategy, per position the number of its layout, or kAbsent.
  std::vector<std::int32_t> layouts;
  std::vector<Example> examples;  // per layout
  bool too_large = false;         // more than kMaxStrategies: what there is, is no use
};

inline constexpr std::size_t kMaxStrategies = std::size_t{1} << 20;

// In the order of torch's product over mesh dims: the last one varies fastest. Of strategies with
// the same placements the first. `problem` is to have no tensors that stay where they are
// (`in_place`, `fixed`): `terms.written` says that.
[[nodiscard]] StrategyTable strategy_table(const Problem& problem, const StrategyTerms& terms);

}  // namespace shardprop
