// Prices of the operands of one problem: each distinct destination of each distinct operand once.
#pragma once

#include <map>
#include <vector>

#include "layout/flat_map.h"
#include "search/problem.h"

namespace shardprop {

// Operands that are alike (same source, size, column of the row table) share one entry.
class OperandClasses {
 public:
  explicit OperandClasses(const Problem& problem);

  [[nodiscard]] int count() const { return static_cast<int>(representative_.size()); }
  [[nodiscard]] int representative(int cls) const { return representative_[cls]; }
  [[nodiscard]] int of(int operand) const { return class_of_[operand]; }

 private:
  std::vector<int> class_of_, representative_;
};

// Bounds and prices that need no graph plan.
class GreedyPricer {
 public:
  GreedyPricer(const Problem& problem, int operand);

  // Lower bound in microseconds over the strategies with these placements from mesh dim
  // `first_known` on; the price itself where first_known is 0.
  [[nodiscard]] double bound(const Placement* wanted, int first_known) const;

  // The least that this operand pays on `mesh_dim` alone for `wanted` there, whatever the other
  // mesh dims do.
  [[nodiscard]] double least(int mesh_dim, Placement wanted) const;

 private:
  enum class Mode : std::uint8_t { kZero, kInfinite, kInfiniteIfMoved, kPriced };

  const Problem& problem_;
  const Operand& operand_;
  Mode mode_;
  bool may_shard_;
  double gigabytes_;
  std::int64_t shards_;
};

// Destinations as numbers: each placement met has one, and those of a layout make the key.
class DestinationKeys {
 public:
  [[nodiscard]] std::uint64_t of(const Layout& wanted);

 private:
  std::vector<Placement> placements_;
};

// Prices in the order in which torch asks for them, with the history of its graph planners.
class HistoryPricer {
 public:
  explicit HistoryPricer(const Problem& problem);

  // nullopt: torch asserts.
  [[nodiscard]] std::optional<double> price(int index, const Layout& wanted);

 private:
  // Distinct destinations of one class of operands.
  struct Known {
    DestinationKeys keys;
    FlatMap index;
    std::vector<std::optional<double>> costs;
  };

  GraphPlanner& planner(const Operand& operand);

  const Problem& problem_;
  OperandClasses classes_;
  std::vector<Known> known_;  // per class
  std::map<int, GraphPlanner> planners_;
};

// Can a price of this problem depend on the history of torch's graph planners?
[[nodiscard]] bool depends_on_history(const Problem& problem);

// The wanted layout of `operand` under `rows`, as torch builds the spec that it prices.
[[nodiscard]] Layout wanted_layout(const Problem& problem, int operand, const Rows& rows);

}  // namespace shardprop
