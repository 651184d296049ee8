#include "exact_prices.h"

#include <algorithm>

namespace shardprop {

Layout layout_at(const Problem& problem, int position, const Rows& rows) {
  std::array<Placement, kMaxMeshDims> placements;
  bool strided = false;
  for (int m = 0; m < problem.mesh.ndim; ++m) {
    placements[m] = problem.table.at(rows[m], position);
    strided |= placements[m].is_strided();
  }
  const std::span<const Placement> span(placements.data(), problem.mesh.ndim);
  return strided && problem.strided_is_order ? unordered_layout(span) : default_layout(span);
}

OperandPrices::OperandPrices(const Problem& problem, int operand, const ExactTerms& terms)
    : problem_(problem), terms_(terms), operand_(operand) {
  const Operand& source = problem.operands[operand];
  if (source.where != Operand::Where::kHere) {
    fixed_ = source.where == Operand::Where::kPinned ? 0 : kNoPrice;
    return;
  }
  std::vector<Placement> cells;
  for (int r = 0; r < problem.table.rows(); ++r) {
    const Placement cell = problem.table.at(r, problem.table.outputs + operand);
    const auto known = std::find(cells.begin(), cells.end(), cell);
    cell_of_row_.push_back(static_cast<std::uint8_t>(known - cells.begin() + 1));
    if (known == cells.end()) cells.push_back(cell);
    strided_ |= cell.is_strided();
  }
  const Layout from = PlanSpace::normalise(source.layout, source.info, terms.model);
  std::vector<Layout> targets;
  for (const Placement cell : cells) {
    const std::vector<Placement> everywhere(static_cast<std::size_t>(problem.mesh.ndim), cell);
    targets.push_back(default_layout(everywhere));
  }
  space_ = std::make_unique<PlanSpace>(terms.model, source.info, from, targets);
  if (space_->active() == 0) {
    fixed_ = 0;
    return;
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::uint8_t code = space_->code_of(cells[i]);
    cell_of_code_[code] = static_cast<std::uint8_t>(i + 1);
  }
  search_ = std::make_unique<PlanSearch>(*space_, space_->encode(from), terms.memory_limit);
}

OperandPrices::Cells OperandPrices::cells_of(const Rows& rows, int mesh_dims) const {
  Cells cells = 0;
  int shift = 0;
  for (int m = 0; m < mesh_dims; ++m) {
    if (terms_.model.size[m] == 1) continue;
    cells |= Cells{cell_of_row_[rows[m]]} << shift;
    shift += 8;
  }
  return cells;
}

State OperandPrices::encoded(const Rows& rows) {
  const Cells cells = cells_of(rows, problem_.mesh.ndim);
  const auto known = encoded_.find(cells);
  if (known != encoded_.end()) return known->second;
  const TensorInfo& info = problem_.operands[operand_].info;
  const Layout layout = layout_at(problem_, problem_.table.outputs + operand_, rows);
  const Layout normal = PlanSpace::normalise(layout, info, terms_.model);
  return encoded_.emplace(cells, space_->reached(space_->encode(normal))).first->second;
}

bool OperandPrices::known(const Rows& rows) {
  if (fixed_ >= 0 || search_->radius() >= kNoPrice) return true;
  if (strided_) return settled_.contains(encoded(rows));
  return index_.find(cells_of(rows, problem_.mesh.ndim)) != FlatMap::kNone;
}

Price OperandPrices::at_least(const Rows& rows) {
  if (fixed_ >= 0) return fixed_;
  if (strided_) {
    const auto found = settled_.find(encoded(rows));
    return found == settled_.end() ? search_->radius() : found->second;
  }
  const std::uint32_t found = index_.find(cells_of(rows, problem_.mesh.ndim));
  return found == FlatMap::kNone ? search_->radius() : least_[found];
}

Price OperandPrices::at_least_from(const Rows& rows, int mesh_dim) const {
  if (fixed_ >= 0) return fixed_;
  if (strided_) return 0;
  const std::uint32_t found = index_.find(cells_of(rows, mesh_dim + 1));
  const Price radius = search_->radius();
  return found == FlatMap::kNone ? radius : std::min(least_[found], radius);
}

void OperandPrices::note(const PlanSearch::Label& label) {
  if (strided_) {
    settled_.emplace(space_->reached(label.state), label.price);
  } else {
    note_cells(label);
  }
}

void OperandPrices::note_cells(const PlanSearch::Label& label) {
  Cells cells = 0;
  std::array<std::uint8_t, PlanSpace::kCodes> cuts{};
  for (int a = 0; a < space_->active(); ++a) {
    const std::uint8_t code = PlanSpace::code_at(label.state, a);
    const std::uint8_t cell = cell_of_code_[space_->as_there(code)];
    // Strategies want the default shard order.
    if (cell == 0 || PlanSpace::place_at(label.state, a) != cuts[code]) return;
    if (space_->is_plain_shard(code)) ++cuts[code];
    cells |= Cells{cell} << (8 * a);
  }
  // Of all that it begins with, too, and of no beginning: mesh dims of one rank may come first.
  Cells beginning = cells;
  for (int a = space_->active(); a >= 0; --a) {
    if (a < space_->active()) beginning &= ~(Cells{0xff} << (8 * a));
    if (index_.find(beginning) != FlatMap::kNone) continue;
    index_.insert(beginning, static_cast<std::uint32_t>(least_.size()));
    least_.push_back(label.price);  // layouts come in the order of their prices
  }
}

void OperandPrices::find_out(const Rows& rows) {
  if (fixed_ >= 0) return;
  // Not further than half as far again: another strategy may be cheaper by then.
  const Price start = search_->radius();
  const Price enough = add(start, std::max(start / 2, price_of(1'000'000, 0)));
  while (search_->radius() <= enough && !known(rows)) {
    const std::uint32_t number = search_->settle();
    if (number == FlatMap::kNone) return;
    note(search_->label(number));
  }
}

OutputPrices::Cells OutputPrices::cells(const Rows& rows) const {
  Cells cells{};
  for (int m = 0; m < problem_.mesh.ndim; ++m) {
    cells[m] = problem_.table.at(rows[m], position_).bits();
  }
  return cells;
}

Price OutputPrices::at_least(const Rows& rows) const {
  const Cells asked = cells(rows);
  for (const auto& [known, price] : prices_) {
    if (known == asked) return price;
  }
  return 0;
}

bool OutputPrices::known(const Rows& rows) const {
  const Cells asked = cells(rows);
  return std::any_of(prices_.begin(), prices_.end(),
                     [&](const auto& known) { return known.first == asked; });
}

void OutputPrices::find_out(const Rows& rows) {
  if (known(rows)) return;
  const Price price = later(layout_at(problem_, position_, rows));
  const Price weighed =
      price >= kNoPrice
          ? kNoPrice
          : price_of(static_cast<std::int64_t>(terms_.output_weight *
                                               static_cast<double>(picoseconds(price))),
                     collectives(price));
  prices_.emplace_back(cells(rows), weighed);
}

Price OutputPrices::later(const Layout& layout) const {
  const WeighedOutput& output = terms_.outputs[position_];
  for (int m = 0; m < layout.ndim; ++m) {
    if (layout.placements[m].kind == Kind::kAbsent) return 0;
  }
  if (output.consumer) {
    return exact_plan(terms_.model, output.info, layout, *output.consumer, terms_.memory_limit,
                      terms_.cache)
        .price;
  }
  const Layout from = PlanSpace::normalise(layout, output.info, terms_.model);
  const PlanSpace space(terms_.model, output.info, from, {});
  PlanSearch search(space, space.encode(from), terms_.memory_limit);
  while (true) {
    const std::uint32_t number = search.settle();
    if (number == FlatMap::kNone) return kNoPrice;
    const Layout at = space.decode(search.label(number).state);
    if (std::none_of(at.placements.begin(), at.placements.end(),
                     [](Placement p) { return p.is_partial(); })) {
      return search.label(number).price;
    }
  }
}

}  // namespace shardprop
