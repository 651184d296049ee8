#include "rule/rule.h"

#include <algorithm>

namespace shardprop {
namespace {

[[noreturn]] void fail(const RowTable& rule, int row, int position, const std::string& what) {
  const bool output = position < rule.outputs;
  throw RuleError("row " + std::to_string(row) + ", " + (output ? "output " : "operand ") +
                  std::to_string(output ? position : position - rule.outputs) + ": " + what);
}

void validate_cell(const RowTable& rule, int row, int position, std::span<const int> input_dims) {
  const Placement cell = rule.at(row, position);
  if (cell.is_partial() && cell.reduce_op() >= kFirstUnknownOp) {
    fail(rule, row, position,
         "Expected a reduce op that torch's Partial knows, got an unknown one.");
  }
  if (position < rule.outputs) return;
  if (cell.kind == Kind::kAbsent) fail(rule, row, position, "Expected a placement, got None.");
  const int dims = input_dims[position - rule.outputs];
  if ((cell.is_shard_like() || cell.kind == Kind::kPlaceholder) && cell.dim >= dims) {
    fail(rule, row, position,
         "Expected a sharding of one of the operand's " + std::to_string(dims) +
             " tensor dims, got tensor dim " + std::to_string(cell.dim) + ".");
  }
}

Placement fill(Placement cell, ShardKind kind) {
  if (cell.kind != Kind::kPlaceholder) return cell;
  return kind == 0 ? shard(cell.dim) : strided_shard(cell.dim, kind);
}

bool is_replicate_row(std::span<const Placement> row) {
  return std::all_of(row.begin(), row.end(),
                     [](Placement p) { return p.is_replicate() || p.kind == Kind::kAbsent; });
}

// Puts the constraints of a row of `from` on the cells of a row of `to`.
void copy_constraints(const RowTable& from, int from_row, RowTable& to, int to_row) {
  if (from.constraints.empty()) return;
  for (int p = 0; p < from.width(); ++p) {
    if (const Constraint* constraint = from.constraints.of(from_row * from.width() + p)) {
      to.constraints.set(to_row * to.width() + p, *constraint);
    }
  }
}

}  // namespace

void CellConstraints::set(int cell, const Constraint& constraint) {
  const auto index = static_cast<std::size_t>(cell);
  if (index >= numbers_.size()) numbers_.resize(index + 1);
  const auto known = std::find(distinct_.begin(), distinct_.end(), constraint);
  numbers_[index] = static_cast<std::uint16_t>(known - distinct_.begin() + 1);
  if (known == distinct_.end()) distinct_.push_back(constraint);
}

void validate_rule(const RowTable& rule, std::span<const int> input_dims) {
  for (int row = 0; row < rule.rows(); ++row) {
    for (int p = 0; p < rule.width(); ++p) validate_cell(rule, row, p, input_dims);
  }
}

RowTable with_replicate_row(const RowTable& rule, const std::vector<bool>& absent_outputs,
                            bool keep_absent) {
  for (int r = 0; r < rule.rows(); ++r) {
    if (is_replicate_row(rule.row(r))) return rule;
  }
  RowTable table{rule.outputs, rule.inputs, std::vector<Placement>(rule.width())};
  for (int p = 0; p < rule.outputs; ++p) {
    bool none = p < static_cast<int>(absent_outputs.size()) && absent_outputs[p];
    if (keep_absent && rule.rows() > 0) none |= rule.at(0, p).kind == Kind::kAbsent;
    if (none) table.cells[p] = absent();
  }
  table.cells.insert(table.cells.end(), rule.cells.begin(), rule.cells.end());
  for (int r = 0; r < rule.rows(); ++r) copy_constraints(rule, r, table, r + 1);
  return table;
}

Expansion fill_placeholders(const RowTable& rule, std::span<const ShardKind> kinds) {
  Expansion expansion{{rule.outputs, rule.inputs, {}, {}}, {}};
  expansion.table.cells.reserve(rule.cells.size() * std::max<std::size_t>(kinds.size(), 1));
  const auto append = [&](int row, ShardKind kind) {
    for (const Placement cell : rule.row(row)) expansion.table.cells.push_back(fill(cell, kind));
    copy_constraints(rule, row, expansion.table, static_cast<int>(expansion.source.size()));
    expansion.source.push_back(row);
  };
  for (int r = 0; r < rule.rows(); ++r) {
    const auto cells = rule.row(r);
    const bool open = std::any_of(cells.begin(), cells.end(),
                                  [](Placement p) { return p.kind == Kind::kPlaceholder; });
    if (!open) {
      append(r, 0);
      continue;
    }
    for (const ShardKind kind : kinds) append(r, kind);
  }
  return expansion;
}

}  // namespace shardprop
