#include "enumerate.h"

#include "filter.h"
#include "pricer.h"

namespace shardprop {
namespace {

class Enumeration {
 public:
  Enumeration(const Problem& problem, const std::function<void(const Strategy&)>& visit)
      : problem_(problem),
        visit_(visit),
        filter_(problem),
        pricer_(problem),
        chosen_(problem.mesh.ndim + 1) {}

  Verdict run() {
    filter_.clear(chosen_[0], true);
    walk(0);
    if (failed_) return Verdict::kUnreachable;
    if (found_) return Verdict::kFound;
    return filter_.blocked_in_place() ? Verdict::kNoInPlaceStrategy : Verdict::kNoStrategy;
  }

 private:
  void walk(int m) {
    if (m == problem_.mesh.ndim) {
      finish();
      return;
    }
    for (int row = 0; row < problem_.table.rows() && !failed_; ++row) {
      if (!filter_.admits(chosen_[m], m, row)) continue;
      strategy_.rows[m] = static_cast<std::uint16_t>(row);
      chosen_[m + 1] = chosen_[m];
      filter_.extend(chosen_[m + 1], m, row);
      walk(m + 1);
    }
  }

  void finish() {
    if (problem_.accepts && !problem_.accepts(strategy_.rows)) return;
    strategy_.operand_costs.clear();
    for (int i = 0; i < static_cast<int>(problem_.operands.size()); ++i) {
      const auto cost = pricer_.price(i, wanted_layout(problem_, i, strategy_.rows));
      failed_ |= !cost;
      if (failed_) return;
      strategy_.operand_costs.push_back(*cost);
    }
    strategy_.cost = python_sum(strategy_.operand_costs, problem_.dialect.compensated_sum);
    found_ = true;
    visit_(strategy_);
  }

  const Problem& problem_;
  const std::function<void(const Strategy&)>& visit_;
  Filter filter_;
  HistoryPricer pricer_;
  std::vector<Filter::Chosen> chosen_;  // per mesh dim: by the rows left of it
  Strategy strategy_{};
  bool found_ = false, failed_ = false;
};

}  // namespace

bool redistributes_nothing(const Problem& problem, const Rows& rows) {
  for (int i = 0; i < problem.positional; ++i) {
    const Operand& operand = problem.operands[i];
    if (operand.where == Operand::Where::kPinned) continue;
    for (int m = 0; m < problem.mesh.ndim; ++m) {
      if (!(problem.table.at(rows[m], problem.table.outputs + i) == operand.layout.placements[m])) {
        return false;
      }
    }
  }
  return true;
}

Verdict for_each_strategy(const Problem& problem,
                          const std::function<void(const Strategy&)>& visit) {
  return Enumeration(problem, visit).run();
}

Decision decide_by_enumeration(const Problem& problem) {
  Decision best;
  bool settled = false;  // a strategy that redistributes nothing beats every other
  best.verdict = for_each_strategy(problem, [&](const Strategy& s) {
    ++best.nodes;
    const bool stays =
        problem.prefers_no_redistribute && s.cost == 0.0 && redistributes_nothing(problem, s.rows);
    const bool first = best.operand_costs.empty();
    if (!first && !stays && (settled || !(s.cost < best.cost))) return;
    settled |= stays;  // and of several, torch takes the last
    best.rows = s.rows;
    best.cost = s.cost;
    best.operand_costs = s.operand_costs;
  });
  return best;
}

}  // namespace shardprop
