#include "search/enumerate.h"

#include <numeric>

#include "search/constraints.h"
#include "search/filter.h"

namespace shardprop {
namespace {

class Walk {
 public:
  Walk(const Problem& problem, const Candidates& candidates,
       const std::function<Visit(const Rows&)>& visit, const Watch& watch)
      : problem_(problem),
        candidates_(candidates),
        visit_(visit),
        watch_(watch),
        filter_(problem),
        chosen_(problem.mesh.ndim + 1) {}

  Verdict run() {
    filter_.clear(chosen_[0], true);
    walk(0);
    if (found_) return Verdict::kFound;
    return filter_.blocked_in_place() ? Verdict::kNoInPlaceStrategy : Verdict::kNoStrategy;
  }

 private:
  void walk(int m) {
    if (m == problem_.mesh.ndim) {
      if (!constraints_hold(problem_, rows_)) return;
      const Visit visit = visit_(rows_);
      found_ |= visit == Visit::kTaken;
      ended_ = visit == Visit::kStop;
      return;
    }
    for (const std::uint16_t row : candidates_[m]) {
      if (ended_) return;
      if (const auto refusal = filter_.refusal(chosen_[m], m, row)) {
        if (watch_) watch_({rows_, m, row, *refusal});
        continue;
      }
      rows_[m] = row;
      chosen_[m + 1] = chosen_[m];
      filter_.extend(chosen_[m + 1], m, row);
      walk(m + 1);
    }
  }

  const Problem& problem_;
  const Candidates& candidates_;
  const std::function<Visit(const Rows&)>& visit_;
  const Watch& watch_;
  Filter filter_;
  std::vector<Filter::Chosen> chosen_;  // per mesh dim: by the rows left of it
  Rows rows_{};
  bool found_ = false, ended_ = false;
};

}  // namespace

bool keeps_operands(const Problem& problem, int mesh_dim, int row) {
  for (int i = 0; i < problem.positional; ++i) {
    const Operand& operand = problem.operands[i];
    if (operand.where != Operand::Where::kPinned &&
        !(problem.table.at(row, problem.table.outputs + i) ==
          operand.layout.placements[mesh_dim])) {
      return false;
    }
  }
  return true;
}

bool redistributes_nothing(const Problem& problem, const Rows& rows) {
  for (int m = 0; m < problem.mesh.ndim; ++m) {
    if (!keeps_operands(problem, m, rows[m])) return false;
  }
  return true;
}

Candidates all_rows(const Problem& problem) {
  Candidates all;
  for (int m = 0; m < problem.mesh.ndim; ++m) {
    all[m].resize(problem.table.rows());
    std::iota(all[m].begin(), all[m].end(), std::uint16_t{0});
  }
  return all;
}

Verdict for_each_valid(const Problem& problem, const std::function<Visit(const Rows&)>& visit) {
  return for_each_valid(problem, all_rows(problem), visit);
}

Verdict for_each_valid(const Problem& problem, const Candidates& candidates,
                       const std::function<Visit(const Rows&)>& visit, const Watch& watch) {
  return Walk(problem, candidates, visit, watch).run();
}

std::optional<Strategy> price_strategy(const Problem& problem, HistoryPricer& pricer,
                                       const Rows& rows) {
  Strategy strategy{rows, {}, 0.0};
  strategy.operand_costs.reserve(problem.operands.size());
  for (int i = 0; i < static_cast<int>(problem.operands.size()); ++i) {
    const auto cost = pricer.price(i, wanted_layout(problem, i, rows));
    if (!cost) return std::nullopt;
    strategy.operand_costs.push_back(*cost);
  }
  strategy.cost = python_sum(strategy.operand_costs, problem.dialect.compensated_sum);
  return strategy;
}

Verdict for_each_strategy(const Problem& problem,
                          const std::function<void(const Strategy&)>& visit) {
  HistoryPricer pricer(problem);
  bool failed = false;
  const Verdict verdict = for_each_valid(problem, [&](const Rows& rows) {
    if (problem.accepts && !problem.accepts(rows)) return Visit::kRejected;
    const auto strategy = price_strategy(problem, pricer, rows);
    failed = !strategy;
    if (failed) return Visit::kStop;
    visit(*strategy);
    return Visit::kTaken;
  });
  return failed ? Verdict::kUnreachable : verdict;
}

Decision decide_by_enumeration(const Problem& problem) {
  Decision best;
  bool settled = false;  // a strategy that redistributes nothing beats every other
  best.verdict = for_each_strategy(problem, [&](const Strategy& s) {
    ++best.nodes;
    const bool stays =
        problem.prefers_no_redistribute && s.cost == 0.0 && redistributes_nothing(problem, s.rows);
    const bool first = best.operand_costs.empty();
    // Of a tie in price torch takes the first.
    if (!first && !stays && (settled || !(s.cost < best.cost))) return;
    settled |= stays;  // and of several, torch takes the last
    best.rows = s.rows;
    best.cost = s.cost;
    best.operand_costs = s.operand_costs;
  });
  return best;
}

}  // namespace shardprop
