#include "search/filter.h"

#include <algorithm>

#include "search/constraints.h"

namespace shardprop {
namespace {
constexpr std::uint32_t kNone = ~std::uint32_t{0};
}

Filter::Filter(const Problem& problem) : problem_(problem) {
  std::size_t offset = 0;
  for (const Operand& operand : problem.operands) {
    divisor_offset_.push_back(offset);
    offset += operand.info.shape.size();
  }
  divisor_offset_.push_back(offset);
}

void Filter::clear(Chosen& chosen, bool in_order) const {
  chosen.in_order = in_order;
  chosen.partial_kind.assign(problem_.table.width(), kNone);
  chosen.divisor.assign(divisor_offset_.back(), 1);
  chosen.unshardable.assign(problem_.operands.size(), false);
  chosen.unchanged.assign(problem_.operands.size(), true);
}

int Filter::position(std::size_t operand) const {
  return problem_.table.outputs + static_cast<int>(operand);
}

Placement Filter::cell(int row, std::size_t operand) const {
  return problem_.table.at(row, position(operand));
}

int Filter::mixed_partial(const Chosen& chosen, int row) const {
  const auto cells = problem_.table.row(row);
  for (std::size_t p = 0; p < cells.size(); ++p) {
    if (!cells[p].is_partial() || chosen.partial_kind[p] == kNone) continue;
    if (!may_mix(chosen.partial_kind[p], cells[p].value)) return static_cast<int>(p);
  }
  return kPasses;
}

bool Filter::keeps_in_place(int mesh_dim, int row) const {
  const Placement self = problem_.operands[0].layout.placements[mesh_dim];
  const Placement first = problem_.table.at(row, 0);
  return cell(row, 0) == self && (first.kind == Kind::kAbsent || first == self);
}

int Filter::moved_fixed(int mesh_dim, int row) const {
  for (const Fixed& fixed : problem_.fixed) {
    if (!(problem_.table.at(row, fixed.position) == fixed.layout.placements[mesh_dim])) {
      return fixed.position;
    }
  }
  return kPasses;
}

bool Filter::shardable(const Chosen& chosen, int mesh_dim, std::size_t operand,
                       Placement placement) const {
  if (!placement.is_shard_like()) return true;
  const TensorInfo& info = problem_.operands[operand].info;
  if (placement.dim >= info.shape.size()) return false;
  if (info.is_symbolic(placement.dim)) return true;  // not ours to say: see symbolic.h
  auto needed = problem_.mesh.size[mesh_dim];
  if (placement.is_strided()) needed *= placement.value;
  if (chosen.in_order || placement.is_shard()) {
    needed *= chosen.divisor[divisor_offset_[operand] + placement.dim];
  }
  return info.shape[placement.dim] >= needed;
}

int Filter::failed_ask(const Chosen& chosen, int mesh_dim, int row) const {
  const RowTable& table = problem_.table;
  if (table.constraints.empty()) return kPasses;
  for (std::size_t i = 0; i < problem_.operands.size(); ++i) {
    const Constraint* constraint = table.constraints.of(row * table.width() + position(i));
    if (constraint == nullptr) continue;
    const std::size_t dim = cell(row, i).dim;
    const auto ranks = chosen.divisor[divisor_offset_[i] + dim] * problem_.mesh.size[mesh_dim];
    if (!may_hold(*constraint, problem_.operands[i].info.shape[dim], ranks)) return position(i);
  }
  return kPasses;
}

int Filter::too_small(const Chosen& chosen, int mesh_dim, int row) const {
  for (std::size_t i = 0; i < problem_.operands.size(); ++i) {
    const Operand& operand = problem_.operands[i];
    if (operand.where == Operand::Where::kPinned) continue;
    if (!chosen.unshardable[i] && shardable(chosen, mesh_dim, i, cell(row, i))) continue;
    const bool unchanged =
        chosen.unchanged[i] && cell(row, i) == operand.layout.placements[mesh_dim];
    if (!(problem_.allow_uneven && unchanged)) return position(i);
  }
  return kPasses;
}

std::optional<Filter::Refusal> Filter::refusal(const Chosen& chosen, int mesh_dim, int row) const {
  if (const int p = mixed_partial(chosen, row); p != kPasses) {
    return Refusal{Reason::kMixedPartial, p};
  }
  if (problem_.in_place && !keeps_in_place(mesh_dim, row)) {
    blocked_in_place_ = true;
    return Refusal{Reason::kInPlace, problem_.table.outputs};
  }
  if (const int p = moved_fixed(mesh_dim, row); p != kPasses) return Refusal{Reason::kFixed, p};
  if (const int p = failed_ask(chosen, mesh_dim, row); p != kPasses) {
    return Refusal{Reason::kConstraint, p};
  }
  if (const int p = too_small(chosen, mesh_dim, row); p != kPasses) {
    return Refusal{Reason::kTooSmall, p};
  }
  return std::nullopt;
}

void Filter::extend(Chosen& chosen, int mesh_dim, int row) const {
  const auto cells = problem_.table.row(row);
  for (std::size_t p = 0; p < cells.size(); ++p) {
    if (cells[p].is_partial() && chosen.partial_kind[p] == kNone) {
      chosen.partial_kind[p] = cells[p].value;
    }
  }
  for (std::size_t i = 0; i < problem_.operands.size(); ++i) {
    const Operand& operand = problem_.operands[i];
    const Placement placement = cell(row, i);
    if (!shardable(chosen, mesh_dim, i, placement)) chosen.unshardable[i] = true;
    if (!(placement == operand.layout.placements[mesh_dim])) chosen.unchanged[i] = false;
    if (placement.is_shard_like() && placement.dim < operand.info.shape.size()) {
      chosen.divisor[divisor_offset_[i] + placement.dim] *= problem_.mesh.size[mesh_dim];
    }
  }
}

bool Filter::passes(const Rows& rows) const {
  Chosen chosen;
  clear(chosen, true);
  for (int m = 0; m < problem_.mesh.ndim; ++m) {
    if (!admits(chosen, m, rows[m])) return false;
    extend(chosen, m, rows[m]);
  }
  return constraints_hold(problem_, rows);
}

}  // namespace shardprop
