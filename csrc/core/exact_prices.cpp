#include "exact_prices.h"

#include <algorithm>

namespace shardprop {
namespace {

constexpr int kBitsPerCell = 8;

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
  const int column = problem.table.outputs + operand;
  for (int r = 0; r < problem.table.rows(); ++r) {
    const Placement cell = problem.table.at(r, column);
    const auto known = std::find(cells_.begin(), cells_.end(), cell);
    cell_of_row_.push_back(static_cast<std::uint8_t>(known - cells_.begin()));
    if (known == cells_.end()) cells_.push_back(cell);
    prefixes_ &= !cell.is_strided();
  }
  if (cells_.size() >= 1u << kBitsPerCell) throw OutsidePlanSpace("too many placements");
  const Layout from = PlanSpace::normalise(source.layout, source.info, terms.model);
  std::vector<Layout> targets;
  for (const Placement cell : cells_) {
    const std::vector<Placement> everywhere(static_cast<std::size_t>(problem.mesh.ndim), cell);
    targets.push_back(default_layout(everywhere));
  }
  space_ = std::make_unique<PlanSpace>(terms.model, source.info, from, targets);
  search_ =
      std::make_unique<PlanSearch>(*space_, space_->encode(from), nullptr, terms.memory_limit);
}

std::uint64_t OperandPrices::cells_key(const Rows& rows, int mesh_dims) const {
  std::uint64_t key = 0;
  for (int m = 0; m < mesh_dims; ++m) {
    const std::uint64_t cell = terms_.model.size[m] > 1 ? cell_of_row_[rows[m]] + 1u : 0u;
    key |= cell << (kBitsPerCell * m);
  }
  return key;
}

State OperandPrices::wanted(const Rows& rows) {
  const std::uint64_t key = cells_key(rows, problem_.mesh.ndim);
  const auto known = states_.find(key);
  if (known != states_.end()) return known->second;
  const TensorInfo& info = problem_.operands[operand_].info;
  const Layout layout = layout_at(problem_, problem_.table.outputs + operand_, rows);
  const State state =
      space_->reached(space_->encode(PlanSpace::normalise(layout, info, terms_.model)));
  states_.emplace(key, state);
  return state;
}

bool OperandPrices::known(const Rows& rows) {
  return fixed_ >= 0 || search_->radius() >= kNoPrice || settled_.contains(wanted(rows));
}

Price OperandPrices::at_least(const Rows& rows) {
  if (fixed_ >= 0) return fixed_;
  const auto found = settled_.find(wanted(rows));
  return found == settled_.end() ? search_->radius() : found->second;
}

Price OperandPrices::at_least_from(const Rows& rows, int mesh_dim) const {
  if (fixed_ >= 0) return fixed_;
  if (!prefixes_) return 0;
  const auto& least = least_[mesh_dim];
  const auto found = least.find(cells_key(rows, mesh_dim + 1));
  return found == least.end() ? search_->radius() : std::min(found->second, search_->radius());
}

void OperandPrices::note_settled(const PlanSearch::Label& label) {
  if (!settled_.emplace(space_->reached(label.state), label.price).second) return;
  if (!prefixes_) return;
  const Layout layout = space_->decode(label.state);
  if (!has_default_order(layout)) return;
  std::uint64_t key = 0;
  for (int m = 0; m < problem_.mesh.ndim; ++m) {
    if (terms_.model.size[m] > 1) {
      const auto cell = std::find(cells_.begin(), cells_.end(), layout.placements[m]);
      if (cell == cells_.end()) return;
      key |= (static_cast<std::uint64_t>(cell - cells_.begin()) + 1) << (kBitsPerCell * m);
    }
    const auto [entry, fresh] = least_[m].emplace(key, label.price);
    if (!fresh) entry->second = std::min(entry->second, label.price);
  }
}

void OperandPrices::find_out(const Rows& rows) {
  if (fixed_ >= 0) return;
  const State goal = wanted(rows);
  // Not further than half as far again: another strategy may be cheaper by then.
  const Price start = search_->radius();
  const Price enough = add(start, std::max(start / 2, price_of(1'000'000, 0)));
  while (!settled_.contains(goal) && search_->radius() <= enough) {
    const std::uint32_t number = search_->settle();
    if (number == FlatMap::kNone) return;
    note_settled(search_->label(number));
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
  PlanSearch search(space, space.encode(from), nullptr, terms_.memory_limit);
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
