// Exact prices from one operand's layout to those that strategies want, found as far as is needed;
// and the later prices of outputs.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_set>

#include "optimal/exact_plan.h"
#include "optimal/exact_search.h"
#include "search/pricer.h"

namespace shardprop {

// The layout at `position` (outputs, then operands) under `rows`.
[[nodiscard]] Layout layout_at(const Problem& problem, int position, const Rows& rows);

// Prices by a key that says what they are of.
class PriceMap {
 public:
  static constexpr Price kUnknown = -1;

  [[nodiscard]] Price find(std::uint64_t key) const {
    const std::uint32_t place = index_.find(key);
    return place == FlatMap::kNone ? kUnknown : prices_[place];
  }
  // The first price that is given for a key stays.
  void put(std::uint64_t key, Price price) {
    if (index_.find(key) != FlatMap::kNone) return;
    index_.insert(key, static_cast<std::uint32_t>(prices_.size()));
    prices_.push_back(price);
  }
  // Of a key that is there.
  void raise(std::uint64_t key, Price price) {
    Price& known = prices_[index_.find(key)];
    known = std::max(known, price);
  }

 private:
  FlatMap index_;
  std::vector<Price> prices_;
};

// One plan after the other while they are few; then one search over all layouts.
class OperandPrices {
 public:
  OperandPrices(const Problem& problem, int operand, const ExactTerms& terms);

  // The price under `rows` if it is known, else what it is at least.
  [[nodiscard]] Price at_least(const Rows& rows);
  [[nodiscard]] bool known(const Rows& rows) const;
  // What any rows cost at least that begin like these, up to and with `mesh_dim`.
  [[nodiscard]] Price at_least_from(const Rows& rows, int mesh_dim);
  // Until the price under `rows` is known, or it is known to be above `most`, or a good deal more
  // than it was. Throws SearchTooLong.
  void find_out(const Rows& rows, Price most);
  // By one plan, which costs `most` at most or is not found.
  void plan(const Rows& rows, Price most);
  // That all searches looked at.
  [[nodiscard]] std::size_t moves() const { return moves_ + (search_ ? search_->moves() : 0); }

 private:
  // Wanted placements by their numbers in the operand's column, one byte for each mesh dim of two
  // ranks and more; 0 where they end.
  using Cells = std::uint64_t;

  [[nodiscard]] Cells cells_of(const Rows& rows, int mesh_dims) const;
  [[nodiscard]] Layout wanted(const Rows& rows) const;
  [[nodiscard]] Price bound_of(const Rows& rows);
  // The least bound of all cells that begin like these.
  Price bound_from(Cells cells, int depth);
  [[nodiscard]] Price bound_of_cells(Cells cells) const;
  void search_on(const Rows& rows, Price most);
  void note(const PlanSearch::Label& label);

  const Problem& problem_;
  const ExactTerms& terms_;
  int operand_;
  Price fixed_ = PriceMap::kUnknown;  // of an operand that is not moved
  std::unique_ptr<PlanSpace> space_;
  std::unique_ptr<SourceBound> bound_;
  std::unique_ptr<PlanSearch> search_;      // once single plans would take longer
  std::vector<std::uint8_t> cell_of_row_;   // numbers from 1
  std::vector<std::uint8_t> code_of_cell_;  // by those numbers
  std::array<std::uint8_t, PlanSpace::kCodes> cell_of_code_{};  // 0: of no row
  // Where strided shards stand for a shard order, cells alone do not tell the layout.
  bool strided_ = false;
  PriceMap bounds_;  // of cells and of what they begin with
  PriceMap prices_;
  // That single plans looked at. The tables of their bounds count once, known before or not: an
  // answer must not depend on what was asked earlier, or ranks could differ.
  std::size_t moves_ = 0;
  std::unordered_set<std::uint64_t> tables_;
};

class OutputPrices {
 public:
  OutputPrices(const Problem& problem, int position, const ExactTerms& terms)
      : problem_(problem), terms_(terms), position_(position) {}

  [[nodiscard]] Price at_least(const Rows& rows) const;
  [[nodiscard]] bool known(const Rows& rows) const;
  // Are there not too many layouts with prices yet?
  [[nodiscard]] bool may_find_out(const Rows& rows) const;
  // Makes the price known, by one search or call; past that limit, too. Throws SearchTooLong where
  // the search is.
  void find_out(const Rows& rows);

 private:
  using Cells = std::array<std::uint64_t, kMaxMeshDims>;
  [[nodiscard]] Cells cells(const Rows& rows) const;
  [[nodiscard]] Price later(const Layout& layout) const;
  [[nodiscard]] Price weighted(Price price) const;

  const Problem& problem_;
  const ExactTerms& terms_;
  int position_;
  std::map<Cells, Price> prices_;
};

}  // namespace shardprop
