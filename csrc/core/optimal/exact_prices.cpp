#include "optimal/exact_prices.h"

#include <algorithm>
#include <cmath>

namespace shardprop {

namespace {

// From each layout there are ten and more, in most of the cases that take long.
constexpr std::size_t kMovesOfLayout = 8;

// Of one output, each with a search or a call of its own.
constexpr std::size_t kMaxOutputLayouts = std::size_t{1} << 12;

Price price_of_later(double us) {
  const double ps = 1e6 * us;
  if (!(ps >= 0.0)) {
    throw CostError("Expected a price of 0 us and more for an output, got " + std::to_string(us) +
                    " us.");
  }
  return ps < static_cast<double>(kMaxPicoseconds)
             ? price_of(static_cast<std::int64_t>(std::floor(ps + 0.5)), 0)
             : kNoPrice;
}

}  // namespace

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
  code_of_cell_.push_back(0);
  for (const Placement cell : cells) {
    code_of_cell_.push_back(space_->code_of(cell));
    cell_of_code_[code_of_cell_.back()] = static_cast<std::uint8_t>(code_of_cell_.size() - 1);
  }
  bound_ = std::make_unique<SourceBound>(*space_, space_->encode(from), terms.cache);
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

Layout OperandPrices::wanted(const Rows& rows) const {
  return layout_at(problem_, problem_.table.outputs + operand_, rows);
}

bool OperandPrices::known(const Rows& rows) const {
  return fixed_ >= 0 || (search_ && search_->radius() >= kNoPrice) ||
         prices_.find(cells_of(rows, problem_.mesh.ndim)) != PriceMap::kUnknown;
}

Price OperandPrices::at_least(const Rows& rows) {
  if (fixed_ >= 0) return fixed_;
  const Price price = prices_.find(cells_of(rows, problem_.mesh.ndim));
  if (price != PriceMap::kUnknown) return price;
  return search_ ? std::max(bound_of(rows), search_->radius()) : bound_of(rows);
}

Price OperandPrices::bound_of(const Rows& rows) {
  const Cells cells = cells_of(rows, problem_.mesh.ndim);
  if (!strided_) return bound_from(cells, space_->active());
  const Price known = bounds_.find(cells);
  if (known != PriceMap::kUnknown) return known;
  const TensorInfo& info = problem_.operands[operand_].info;
  const State state = space_->encode(PlanSpace::normalise(wanted(rows), info, terms_.model));
  const Price bound = bound_->of(state);
  bounds_.put(cells, bound);
  return bound;
}

Price OperandPrices::at_least_from(const Rows& rows, int mesh_dim) {
  if (fixed_ >= 0) return fixed_;
  if (strided_) return 0;
  int depth = 0;
  for (int m = 0; m <= mesh_dim; ++m) depth += terms_.model.size[m] > 1;
  return bound_from(cells_of(rows, mesh_dim + 1), depth);
}

Price OperandPrices::bound_from(Cells cells, int depth) {
  const Price known = bounds_.find(cells);
  if (known != PriceMap::kUnknown) return known;
  Price least = kNoPrice;
  if (depth == space_->active()) {
    least = bound_of_cells(cells);
  } else {
    for (std::size_t cell = 1; cell < code_of_cell_.size(); ++cell) {
      least = std::min(least, bound_from(cells | Cells{cell} << (8 * depth), depth + 1));
    }
  }
  bounds_.put(cells, least);
  return least;
}

Price OperandPrices::bound_of_cells(Cells cells) const {
  State state = 0;
  std::array<std::uint8_t, PlanSpace::kCodes> cuts{};
  for (int a = 0; a < space_->active(); ++a) {
    const std::uint8_t code = code_of_cell_[cells >> (8 * a) & 0xff];
    // Strategies want the default shard order.
    const int place = space_->is_plain_shard(code) ? cuts[code]++ : 0;
    state = PlanSpace::with(state, a, code, place);
  }
  return bound_->of(state);
}

void OperandPrices::find_out(const Rows& rows, Price most) {
  if (known(rows) || at_least(rows) > most) return;
  if (moves() > terms_.most_moves) {
    throw SearchTooLong("too many layouts for an exact decision");
  }
  // By then plans have looked at a good part of what one search would.
  if (search_ || (!strided_ && moves() > kMovesOfLayout * space_->layouts())) {
    search_on(rows, most);
  } else {
    plan(rows, most);
  }
}

void OperandPrices::plan(const Rows& rows, Price most) {
  if (known(rows)) return;
  const Operand& source = problem_.operands[operand_];
  const ExactPlan plan = exact_plan(terms_.model, source.info, source.layout, wanted(rows),
                                    terms_.memory_limit, terms_.cache, most);
  moves_ += plan.moves;
  if (tables_.insert(plan.bound_pattern).second) moves_ += plan.moves_of_bound;
  const Cells cells = cells_of(rows, problem_.mesh.ndim);
  if (plan.found || most >= kNoPrice) {
    prices_.put(cells, plan.price);
  } else {
    bounds_.raise(cells, most + 1);
  }
}

void OperandPrices::search_on(const Rows& rows, Price most) {
  if (!search_) {
    const Operand& source = problem_.operands[operand_];
    const Layout from = PlanSpace::normalise(source.layout, source.info, terms_.model);
    search_ = std::make_unique<PlanSearch>(*space_, space_->encode(from), terms_.memory_limit);
  }
  // Not further than half as far again: another strategy may be cheaper by then.
  const Price start = at_least(rows);
  const Price enough = std::min(most, add(start, std::max(start / 2, price_of(1'000'000, 0))));
  while (search_->radius() <= enough && !known(rows)) {
    const std::uint32_t number = search_->settle();
    if (number == FlatMap::kNone) return;
    note(search_->label(number));
  }
}

// Keeps the price of a layout that some strategy may want.
void OperandPrices::note(const PlanSearch::Label& label) {
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
  prices_.put(cells, label.price);  // layouts come in the order of their prices
}

OutputPrices::Cells OutputPrices::cells(const Rows& rows) const {
  // What the caller knows may depend on all of a strategy.
  const bool told = terms_.outputs[position_].later_us != nullptr;
  Cells cells{};
  for (int m = 0; m < problem_.mesh.ndim; ++m) {
    cells[m] = told ? rows[m] : problem_.table.at(rows[m], position_).bits();
  }
  return cells;
}

Price OutputPrices::at_least(const Rows& rows) const {
  const auto found = prices_.find(cells(rows));
  return found == prices_.end() ? 0 : found->second;
}

bool OutputPrices::known(const Rows& rows) const { return prices_.contains(cells(rows)); }

bool OutputPrices::may_find_out(const Rows& rows) const {
  return known(rows) || prices_.size() < kMaxOutputLayouts;
}

void OutputPrices::find_out(const Rows& rows) {
  if (known(rows)) return;
  const PricedOutput& output = terms_.outputs[position_];
  const Price price = output.later_us ? price_of_later(output.later_us(rows))
                                      : later(layout_at(problem_, position_, rows));
  prices_.emplace(cells(rows), weighted(price));
}

Price OutputPrices::weighted(Price price) const {
  const double ps = terms_.output_weight * static_cast<double>(picoseconds(price));
  if (price >= kNoPrice || !(ps < static_cast<double>(kMaxPicoseconds))) return kNoPrice;
  return price_of(static_cast<std::int64_t>(ps), collectives(price));
}

Price OutputPrices::later(const Layout& layout) const {
  const PricedOutput& output = terms_.outputs[position_];
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
