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
  [[nodiscard]] State wanted(const Rows& rows);
  void note_settled(const PlanSearch::Label& label);
  [[nodiscard]] std::uint64_t cells_key(const Rows& rows, int mesh_dims) const;

  const Problem& problem_;
  const ExactTerms& terms_;
  int operand_;
  Price fixed_ = -1;      // of an operand that is not moved
  bool prefixes_ = true;  // can a settled layout be told by its placements, mesh dim by mesh dim
  std::unique_ptr<PlanSpace> space_;
  std::unique_ptr<PlanSearch> search_;
  std::unordered_map<State, Price> settled_;
  std::vector<Placement> cells_;                     // distinct, of the operand's column
  std::vector<std::uint8_t> cell_of_row_;            // per row its place in `cells_`
  std::unordered_map<std::uint64_t, State> states_;  // wanted, by the numbers of its cells
  // Per number of mesh dims the least price settled of layouts that begin so.
  std::array<std::unordered_map<std::uint64_t, Price>, kMaxMeshDims> least_;
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
