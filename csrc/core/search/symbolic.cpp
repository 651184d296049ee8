#include "search/symbolic.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "search/guards.h"
#include "search/shardable.h"

namespace shardprop {
namespace {

class SymbolicSearch {
 public:
  explicit SymbolicSearch(const Problem& problem) : problem_(problem), pricer_(problem) {}

  Decision run() {
    decision_.verdict = for_each_valid(problem_, [this](const Rows& rows) { return visit(rows); });
    if (decision_.nodes > kMaxSymbolicStrategies) decision_.verdict = Verdict::kTooLarge;
    if (decision_.verdict != Verdict::kFound) return std::move(decision_);
    const Strategy chosen = choose();
    decision_.rows = chosen.rows;
    decision_.cost = chosen.cost;
    decision_.operand_costs = chosen.operand_costs;
    return std::move(decision_);
  }

 private:
  Visit visit(const Rows& rows) {
    if (++decision_.nodes > kMaxSymbolicStrategies) return Visit::kStop;
    if (!fits(rows) || (problem_.accepts && !problem_.accepts(rows))) return Visit::kRejected;
    const double cost = priced(rows).cost;
    const bool stays =
        problem_.prefers_no_redistribute && cost == 0.0 && redistributes_nothing(problem_, rows);
    if (stays) unmoved_ = priced_.size();  // of several, torch takes the last
    priced_.push_back({rows, cost});
    return Visit::kTaken;
  }

  // Operand by operand and mesh dim by mesh dim, up to the first that does not fit: torch's order,
  // so that it is asked nothing that it would not ask itself.
  bool fits(const Rows& rows) {
    for (int i = 0; i < static_cast<int>(problem_.operands.size()); ++i) {
      const Operand& operand = problem_.operands[i];
      if (operand.where == Operand::Where::kPinned || operand.info.symbolic == 0) continue;
      if (!fits(i, rows) && !(problem_.allow_uneven && keeps_operand(problem_, i, rows)))
        return false;
    }
    return true;
  }

  bool fits(int index, const Rows& rows) {
    const TensorInfo& info = problem_.operands[index].info;
    return is_shardable(problem_, index, rows, [&](int tensor_dim, std::int64_t pieces) {
      return info.is_symbolic(tensor_dim) ? holds(index, tensor_dim, pieces)
                                          : info.shape[tensor_dim] >= pieces;
    });
  }

  bool holds(int index, int tensor_dim, std::int64_t pieces) {
    const auto [known, is_new] = asked_.try_emplace({index, tensor_dim, pieces}, false);
    if (is_new) known->second = problem_.sizes->holds(index, tensor_dim, pieces);
    return known->second;
  }

  // Without a graph plan every strategy has a price.
  Strategy priced(const Rows& rows) { return *price_strategy(problem_, pricer_, rows); }

  Strategy choose() {
    if (unmoved_) return priced(priced_[*unmoved_].rows);
    const auto least =
        std::min_element(priced_.begin(), priced_.end(),
                         [](const PricedRows& a, const PricedRows& b) { return a.cost < b.cost; });
    // What is free or impossible is so for all sizes. For an element of a list op torch compares
    // all the same.
    const bool for_all_sizes = least->cost == 0.0 || std::isinf(least->cost);
    if (priced_.size() == 1 || (for_all_sizes && problem_.prefers_no_redistribute)) {
      return priced(least->rows);
    }
    std::vector<Strategy> near;
    for (const PricedRows& other : priced_) {
      if (is_near(other.cost, least->cost)) near.push_back(priced(other.rows));
    }
    const Strategy chosen = near.at(problem_.sizes->cheapest(near));
    guard_price(problem_, priced_, chosen);
    return chosen;
  }

  const Problem& problem_;
  HistoryPricer pricer_;
  std::map<std::tuple<int, int, std::int64_t>, bool> asked_;
  std::vector<PricedRows> priced_;
  std::optional<std::size_t> unmoved_;
  Decision decision_;
};

}  // namespace

Decision decide_symbolic(const Problem& problem) { return SymbolicSearch(problem).run(); }

}  // namespace shardprop
