// Exact prices from one operand's layout to those that strategies want, found as far as is needed;
// and the later prices of outputs.
#pragma once

#include <memory>
#include <unordered_map>

#include "exact_plan.h"
#include "exact_search.h"
#include "pricer.h"

namespace shardprop {

// The layout at `position` (outputs, then operands) under `rows`.
[[nodiscard]] Layout layout_at(const Problem& problem, int position, const Rows& rows);

class OperandPrices {
 public:
  OperandPrices(const Problem& problem, int operand, const ExactTerms& terms);

  // The price under `rows` if it is known, else what it is at least.
  [[nodiscard]] Price at_least(const Rows& rows);
  [[nodiscard]] bool known(const Rows& rows);
  // What any rows cost at least that begin like these, up to and with `mesh_dim`.
  [[nodiscard]] Price at_least_from(const Rows& rows, int mesh_dim) const;
  // Goes on until the price under `rows` is known, or a good deal of what is nearer.
  void find_out(const Rows& rows);
  [[nodiscard]] std::size_t layouts() const { return search_ ? search_->met() : 0; }

 private:
  // Layouts by their cells, one byte for each mesh dim of two ranks and more, 0 where they end.
  using Cells = std::uint64_t;

  [[nodiscard]] Cells cells_of(const Rows& rows, int mesh_dims) const;
  void note(const PlanSearch::Label& label);
  // Of a layout that some strategy may want, told by its cells.
  void note_cells(const PlanSearch::Label& label);
  // The layout that strided shards make of these rows.
  [[nodiscard]] State encoded(const Rows& rows);

  const Problem& problem_;
  const ExactTerms& terms_;
  int operand_;
  Price fixed_ = -1;  // of an operand that is not moved
  std::unique_ptr<PlanSpace> space_;
  std::unique_ptr<PlanSearch> search_;
  std::vector<std::uint8_t> cell_of_row_;                       // numbers from 1
  std::array<std::uint8_t, PlanSpace::kCodes> cell_of_code_{};  // 0: of no row
  // Of cells and of what they begin with, the least price that is known.
  FlatMap index_;
  std::vector<Price> least_;
  // Where strided shards stand for a shard order, cells alone do not tell the layout.
  bool strided_ = false;
  std::unordered_map<State, Price> settled_;
  std::unordered_map<Cells, State> encoded_;
};

class OutputPrices {
 public:
  OutputPrices(const Problem& problem, int position, const ExactTerms& terms)
      : problem_(problem), terms_(terms), position_(position) {}

  [[nodiscard]] Price at_least(const Rows& rows) const;
  [[nodiscard]] bool known(const Rows& rows) const;
  void find_out(const Rows& rows);

 private:
  using Cells = std::array<std::uint64_t, kMaxMeshDims>;
  [[nodiscard]] Cells cells(const Rows& rows) const;
  [[nodiscard]] Price later(const Layout& layout) const;

  const Problem& problem_;
  const ExactTerms& terms_;
  int position_;
  std::vector<std::pair<Cells, Price>> prices_;
};

}  // namespace shardprop
