// What each destination of each operand costs, as a line over the operand's bytes: without a graph
// plan, the steps of torch's plan do not depend on the bytes, and each adds a latency and a share.
#pragma once

#include <deque>
#include <vector>

#include "layout/flat_map.h"
#include "search/pricer.h"
#include "search/problem.h"

namespace shardprop {

struct PriceByBytes {
  double fixed = 0.0;  // microseconds; kImpossible for what torch refuses
  double per_byte = 0.0;
  // Prices of one operand with equal formulas are the same operations on the same numbers: equal to
  // the last bit, however many bytes it has. Those of formula 0 are 0 or impossible.
  std::uint32_t formula = 0;
};

// Lines of one problem, each distinct one computed once. No price may depend on the history of
// torch's graph planners.
class PricesByBytes {
 public:
  explicit PricesByBytes(const Problem& problem);

  [[nodiscard]] const PriceByBytes& of(int operand, const Rows& rows);

 private:
  // All that the price of a step depends on, save the bytes.
  struct FormulaStep {
    Kind from, to;
    std::int64_t ranks;
    double bandwidth, latency;

    friend bool operator==(const FormulaStep&, const FormulaStep&) = default;
  };
  using Formula = std::vector<FormulaStep>;

  // Distinct destinations of one class of operands.
  struct Known {
    DestinationKeys keys;
    FlatMap index;
    std::deque<PriceByBytes> lines;
    std::vector<Formula> formulas{{}};
  };

  [[nodiscard]] PriceByBytes line(const Operand& operand, const Layout& wanted, Known& known) const;
  [[nodiscard]] Formula formula(const Operand& operand, const Layout& wanted) const;

  const Problem& problem_;
  OperandClasses classes_;
  std::vector<Known> known_;  // per class
};

}  // namespace shardprop
