#include "notation/notation_rows.h"

#include <algorithm>

#include "notation/notation_names.h"

namespace shardprop {
namespace {

// How one tensor has an axis: the dim, and the product of the sizes of the axes inside it there.
struct Held {
  int dim;
  NotedSize inside;
};

// Of what no tensor can have the exact number does not matter, and of nothing there is one.
NotedSize times(NotedSize a, NotedSize b) {
  constexpr NotedSize kTooMuch = NotedSize{1} << 62;
  if (b < 1) return a;
  return a > kTooMuch / b ? kTooMuch : a * b;
}

class RowMaker {
 public:
  RowMaker(const Pattern& pattern, const NotedCall& call)
      : pattern_(pattern), fit_(fit(pattern, call)) {
    for (const FittedTensor& tensor : fit_.operands) {
      linear_ |= mark_of(tensor) == Mark::kLinear;
      additive_ |= mark_of(tensor) == Mark::kAdditive;
    }
  }

  std::vector<NotedRow> rows() {
    make();
    return std::move(rows_);
  }

  std::vector<std::string> origins() {
    make();
    std::vector<std::string> texts;
    for (const Origin origin : origins_) texts.push_back(text_of(origin));
    return texts;
  }

 private:
  // What a row follows from: a factor, the marks, or a row that is written out.
  struct Origin {
    enum { kFactor, kMarks, kWritten } kind;
    std::size_t index;
  };

  void make() {
    for (const int axis : fit_.order) {
      origin_ = {Origin::kFactor, static_cast<std::size_t>(fit_.axes[axis].factor)};
      if (may_cut(axis)) cut(axis);
    }
    origin_ = {Origin::kMarks, 0};
    for (const ReduceOp op : {kSum, kAvg}) pass_partial(op);
    for (std::size_t i = 0; i < pattern_.rows.size(); ++i) {
      origin_ = {Origin::kWritten, i};
      write(pattern_.rows[i], i);
    }
  }

  std::string text_of(Origin origin) const {
    switch (origin.kind) {
      case Origin::kFactor:
        return "cutting " + pattern_.factors[origin.index].name;
      case Origin::kMarks:
        return linear_ && additive_ ? "marks + and *" : linear_ ? "mark *" : "mark +";
      case Origin::kWritten:
        break;
    }
    return "row " + std::to_string(origin.index) + " of those written out";
  }

  Mark mark_of(const FittedTensor& operand) const { return pattern_.operands[operand.term].mark; }

  const Term& output_term(const FittedTensor& output) const {
    return pattern_.outputs[output.term - static_cast<int>(pattern_.operands.size())];
  }

  const Factor& factor_of(int axis) const { return pattern_.factors[fit_.axes[axis].factor]; }

  // Is the axis in the operand's term, even if this operand broadcasts it?
  bool mentions(const FittedTensor& operand, int axis) const {
    return pattern_.operands[operand.term].mentions(fit_.axes[axis].factor);
  }

  // --- which axes may be cut --------------------------------------------------------------------

  // Of a merged dim only the outermost axis, sizes of 1 apart.
  bool is_outermost(const std::vector<int>& axes, int axis) const {
    for (const int other : axes) {
      if (fit_.axes[other].size != 1) return other == axis;
    }
    return false;
  }

  bool may_cut(int axis) const {
    const Factor& factor = factor_of(axis);
    if (factor.whole || !factor.on_left || fit_.axes[axis].differs) return false;
    for (const auto* tensors : {&fit_.operands, &fit_.outputs}) {
      for (const FittedTensor& tensor : *tensors) {
        for (const auto& axes : tensor.dims) {
          const bool has = std::find(axes.begin(), axes.end(), axis) != axes.end();
          if (has && axes.size() > 1 && !is_outermost(axes, axis)) return false;
        }
      }
    }
    return true;
  }

  std::optional<Held> held_by(const FittedTensor& tensor, int axis) const {
    for (std::size_t d = 0; d < tensor.dims.size(); ++d) {
      const auto& axes = tensor.dims[d];
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) continue;
      NotedSize inside = 1;
      for (const int other : axes) {
        if (other != axis) inside = times(inside, fit_.axes[other].size.value_or(1));
      }
      return Held{static_cast<int>(d), inside};
    }
    return std::nullopt;
  }

  // --- rows -------------------------------------------------------------------------------------

  void add(NotedRow row) {
    const bool is_replicate = std::all_of(row.begin(), row.end(), [](const NotedCell& cell) {
      return cell.placement.is_replicate();
    });
    if (is_replicate || std::find(rows_.begin(), rows_.end(), row) != rows_.end()) return;
    rows_.push_back(std::move(row));
    origins_.push_back(origin_);
  }

  NotedRow blank() const {
    NotedRow row(fit_.outputs.size() + fit_.operands.size());
    for (std::size_t i = 0; i < fit_.outputs.size(); ++i) {
      if (fit_.outputs[i].is_absent) row[i].placement = absent();
    }
    return row;
  }

  NotedCell& operand_cell(NotedRow& row, std::size_t operand) const {
    return row[fit_.outputs.size() + operand];
  }

  // Shards every tensor that has the axis. A cut inside a merged dim must fall on its borders.
  void cut(int axis) {
    const Factor& factor = factor_of(axis);
    NotedRow row = blank();
    bool is_merged = false, is_left = false, is_kept = false;
    const auto shard_cell = [&](const FittedTensor& tensor, NotedCell& cell) {
      const auto held = held_by(tensor, axis);
      if (!held) return false;
      is_merged |= held->inside > 1;
      cell.placement = placeholder(held->dim);
      cell.multiple_of = times(factor.constraints.multiple, held->inside);
      cell.min_local = factor.constraints.min > 0 ? times(factor.constraints.min, held->inside) : 0;
      return true;
    };
    for (std::size_t i = 0; i < fit_.outputs.size(); ++i) {
      const FittedTensor& output = fit_.outputs[i];
      if (output.is_absent || output_term(output).is_any) continue;
      const bool has = shard_cell(output, row[i]);
      if (!has) row[i].placement = partial(factor.reduce_op());
      (has ? is_kept : is_left) = true;
    }
    // Outputs that are all "_" do not say what a cut makes of them.
    if (!fit_.outputs.empty() && !is_kept && !is_left) return;
    for (std::size_t i = 0; i < fit_.operands.size(); ++i) {
      shard_cell(fit_.operands[i], operand_cell(row, i));
    }
    const bool even =
        factor.constraints.even || is_merged || (is_left && factor.reduce_op() == kAvg);
    for (NotedCell& cell : row) cell.even = even && cell.placement.kind == Kind::kPlaceholder;
    if (is_left && factor.reduce_op() == kSum) {
      add_with_pending(std::move(row), axis, is_kept);
    } else {
      add(std::move(row));
    }
  }

  // A row that leaves a sum pending. What is added to the sum must be pending as well, or every
  // rank would add all of it: operands marked "+" without the axis, and, where only "+" operands
  // have it, the product of the "*" operands, by way of one of them.
  void add_with_pending(NotedRow row, int axis, bool is_kept_elsewhere) {
    bool additive_has = false, linear_has = false, additive_lacks = false;
    for (std::size_t i = 0; i < fit_.operands.size(); ++i) {
      const bool has = mentions(fit_.operands[i], axis);
      const Mark mark = mark_of(fit_.operands[i]);
      additive_has |= has && mark == Mark::kAdditive;
      linear_has |= has && mark == Mark::kLinear;
      if (has || mark != Mark::kAdditive) continue;
      additive_lacks = true;
      operand_cell(row, i).placement = partial(kSum);
    }
    const bool product_lacks = additive_has && linear_ && !linear_has;
    // To an output that has the axis the operand would have to be whole at the same time.
    if (is_kept_elsewhere && (additive_lacks || product_lacks)) return;
    if (!product_lacks) return add(std::move(row));
    for (std::size_t i = 0; i < fit_.operands.size(); ++i) {
      if (mark_of(fit_.operands[i]) != Mark::kLinear) continue;
      NotedRow with = row;
      operand_cell(with, i).placement = partial(kSum);
      add(std::move(with));
    }
  }

  // All "+" operands pending, together with each "*" operand in turn.
  void pass_partial(ReduceOp op) {
    if (!linear_ && !additive_) return;
    NotedRow row = blank();
    bool is_passed = false;
    for (std::size_t i = 0; i < fit_.outputs.size(); ++i) {
      const FittedTensor& output = fit_.outputs[i];
      if (output.is_absent || output_term(output).is_any) continue;
      row[i].placement = partial(op);
      is_passed = true;
    }
    if (!is_passed) return;
    for (std::size_t i = 0; i < fit_.operands.size(); ++i) {
      if (mark_of(fit_.operands[i]) == Mark::kAdditive) {
        operand_cell(row, i).placement = partial(op);
      }
    }
    if (!linear_) return add(std::move(row));
    for (std::size_t i = 0; i < fit_.operands.size(); ++i) {
      if (mark_of(fit_.operands[i]) != Mark::kLinear) continue;
      NotedRow with = row;
      operand_cell(with, i).placement = partial(op);
      add(std::move(with));
    }
  }

  // Has every tensor that the row wants cut or Partial been given? What follows from it without
  // them is anybody's guess: a sum that no operand is to be is whole.
  [[nodiscard]] bool is_given(const WrittenRow& written) const {
    for (std::size_t term = 0; term < written.operands.size(); ++term) {
      if (written.operands[term].is_replicate()) continue;
      const bool has_tensor = std::any_of(
          fit_.operands.begin(), fit_.operands.end(),
          [&](const FittedTensor& operand) { return operand.term == static_cast<int>(term); });
      if (!has_tensor) return false;
    }
    return true;
  }

  // A placement per term becomes one per tensor.
  void write(const WrittenRow& written, std::size_t number) {
    if (!is_given(written)) return;
    NotedRow row = blank();
    const auto fill = [&](const FittedTensor& tensor, int term, NotedCell& cell,
                          const std::vector<Placement>& cells) {
      if (tensor.is_absent) return;
      if (cells.empty()) {
        throw FitError("Expected a placement in row " + std::to_string(number) +
                           " of those written out, got none.",
                       tensor.term, tensor.element);
      }
      cell.placement = cells[term];
      const bool has_dim = cell.placement.kind != Kind::kPlaceholder || !tensor.shape ||
                           cell.placement.dim < tensor.shape->size();
      if (has_dim) return;
      throw FitError("Expected a tensor dim below " + std::to_string(tensor.shape->size()) +
                         " in row " + std::to_string(number) + " of those written out, got S(" +
                         std::to_string(cell.placement.dim) + ").",
                     tensor.term, tensor.element);
    };
    for (std::size_t i = 0; i < fit_.outputs.size(); ++i) {
      const FittedTensor& output = fit_.outputs[i];
      const int term = output.term - static_cast<int>(pattern_.operands.size());
      fill(output, term, row[i], written.outputs);
    }
    for (std::size_t i = 0; i < fit_.operands.size(); ++i) {
      const FittedTensor& operand = fit_.operands[i];
      fill(operand, operand.term, operand_cell(row, i), written.operands);
    }
    add(std::move(row));
  }

  const Pattern& pattern_;
  const Fit fit_;
  bool linear_ = false, additive_ = false;
  std::vector<NotedRow> rows_;
  Origin origin_{};
  std::vector<Origin> origins_;  // of the rows
};

}  // namespace

std::vector<NotedRow> rows_of(const Pattern& pattern, const NotedCall& call) {
  return RowMaker(pattern, call).rows();
}

std::vector<std::string> origins_of(const Pattern& pattern, const NotedCall& call) {
  return RowMaker(pattern, call).origins();
}

}  // namespace shardprop
