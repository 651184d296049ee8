// A rule: what an op allows on ONE mesh dim, as rows of output and input placements; and the row
// table it becomes once its placeholders are filled with the kinds of sharding seen in the inputs.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "layout/placement.h"
#include "rule/constraint.h"

namespace shardprop {

// A rule that cannot be used as written. The message names row and position; the caller adds the
// op.
struct RuleError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// Constraints of cells, by the number of the cell; most rules have none.
class CellConstraints {
 public:
  [[nodiscard]] bool empty() const { return numbers_.empty(); }
  // nullptr: nothing.
  [[nodiscard]] const Constraint* of(int cell) const {
    const auto index = static_cast<std::size_t>(cell);
    if (index >= numbers_.size() || numbers_[index] == 0) return nullptr;
    return &distinct_[numbers_[index] - 1];
  }
  void set(int cell, const Constraint& constraint);

 private:
  std::vector<std::uint16_t> numbers_;  // per cell up to the last that has one: one more than its
  std::vector<Constraint> distinct_;    // place here, 0 for nothing
};

// Rows of `outputs + inputs` placements, row after row. Outputs come first.
struct RowTable {
  int outputs = 0;
  int inputs = 0;
  std::vector<Placement> cells;
  CellConstraints constraints = {};

  [[nodiscard]] int width() const { return outputs + inputs; }
  [[nodiscard]] int rows() const {
    return width() == 0 ? 0 : static_cast<int>(cells.size()) / width();
  }
  [[nodiscard]] Placement at(int row, int position) const {
    return cells[row * width() + position];
  }
  [[nodiscard]] std::span<const Placement> row(int index) const {
    return {cells.data() + static_cast<std::ptrdiff_t>(index) * width(),
            static_cast<std::size_t>(width())};
  }
};

// One kind of sharding that a placeholder may become: 0 for Shard, else the split factor of a
// _StridedShard.
using ShardKind = std::uint32_t;

// Throws RuleError if a row has a cell that cannot be meant: an input that is absent, a placeholder
// or shard of a tensor dim that the input does not have (`input_dims[i]` dims), a Partial of a
// reduce op that torch does not know.
void validate_rule(const RowTable& rule, std::span<const int> input_dims);

// The rule with the all-Replicate row put first, unless it has one already (rows of Replicate and
// absent cells only). Absent in the new row: outputs of `absent_outputs`, and outputs that are
// absent in every row where `keep_absent` (torch 2.15).
[[nodiscard]] RowTable with_replicate_row(const RowTable& rule,
                                          const std::vector<bool>& absent_outputs,
                                          bool keep_absent);

// Fills the placeholders: a row that has some becomes one row per kind, in the order of `kinds`;
// with no kinds it vanishes. `source[r]` is the row of the rule that row r came from.
struct Expansion {
  RowTable table;
  std::vector<int> source;
};
[[nodiscard]] Expansion fill_placeholders(const RowTable& rule, std::span<const ShardKind> kinds);

}  // namespace shardprop
