#include "optimal/exact_search.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>

#include "optimal/exact_prices.h"
#include "search/constraints.h"
#include "search/enumerate.h"
#include "search/filter.h"
#include "search/search.h"

namespace shardprop {
namespace {

class Search {
 public:
  Search(const Problem& problem, const ExactTerms& terms)
      : problem_(problem),
        terms_(terms),
        classes_(problem),
        filter_(problem),
        chosen_(problem.mesh.ndim + 1) {
    filter_.clear(chosen_[0], true);
  }

  ExactDecision run() {
    if (terms_.output_weight == 0.0 && problem_.prefers_no_redistribute && find_unmoved(0)) {
      best_.rows = rows_;
      result_.decision.operand_costs.assign(problem_.operands.size(), 0.0);
      return finish(Verdict::kFound);
    }
    prepare_prices();
    try {
      if (!find_first()) return finish(why_none());
      collect_alternatives();
      try_alternatives();
    } catch (const SearchTooLong&) {
      if (!settle_for_known()) throw;
    }
    return found_ ? finish_found() : finish(Verdict::kUnreachable);
  }

 private:
  void prepare_prices() {
    sharers_.resize(classes_.count());
    for (std::size_t i = 0; i < problem_.operands.size(); ++i) {
      ++sharers_[classes_.of(static_cast<int>(i))];
    }
    operands_.reserve(classes_.count());
    for (int c = 0; c < classes_.count(); ++c) {
      operands_.emplace_back(problem_, classes_.representative(c), terms_);
    }
    for (std::size_t p = 0; p < terms_.outputs.size(); ++p) {
      outputs_.emplace_back(problem_, static_cast<int>(p), terms_);
    }
  }

  // The last strategy in torch's order that leaves every operand as it is.
  bool find_unmoved(int m) {
    if (m == problem_.mesh.ndim) return filter_.passes(rows_) && accepted(rows_);
    for (int row = problem_.table.rows() - 1; row >= 0; --row) {
      if (!keeps_every_operand(m, row)) continue;
      rows_[m] = static_cast<std::uint16_t>(row);
      if (find_unmoved(m + 1)) return true;
    }
    return false;
  }

  [[nodiscard]] bool keeps_every_operand(int m, int row) const {
    for (int i = 0; i < static_cast<int>(problem_.operands.size()); ++i) {
      const Operand& operand = problem_.operands[i];
      if (operand.where == Operand::Where::kPinned) continue;
      // A shard order that is not the default one is not what a strategy asks for.
      if (operand.where == Operand::Where::kForeign || !is_as_made(operand.layout) ||
          !(problem_.table.at(row, problem_.table.outputs + i) == operand.layout.placements[m])) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool is_as_made(const Layout& layout) const {
    return has_strided(layout) ? layout.ordered != problem_.strided_is_order
                               : has_default_order(layout);
  }

  // A strategy: what it costs at least, and its place in torch's order.
  struct Candidate {
    Price bound = kNoPrice;
    std::size_t place = 0;
    Rows rows{};

    // A tie goes to the strategy that torch lists first.
    bool operator<(const Candidate& other) const {
      return bound != other.bound ? bound < other.bound : place < other.place;
    }
    bool operator>(const Candidate& other) const { return other < *this; }
  };

  // Calls `visit(bound)` for each valid strategy, in torch's order, whose bound is at most
  // `most()`.
  void walk(int m, const auto& most, const auto& visit) {
    if (m == problem_.mesh.ndim) {
      const Price bound = total(rows_);
      if (bound <= most() && constraints_hold(problem_, rows_)) visit(bound);
      return;
    }
    for (int row = 0; row < problem_.table.rows(); ++row) {
      if (!filter_.admits(chosen_[m], m, row)) continue;
      rows_[m] = static_cast<std::uint16_t>(row);
      if (bound_from(m) > most()) continue;
      chosen_[m + 1] = chosen_[m];
      filter_.extend(chosen_[m + 1], m, row);
      walk(m + 1, most, visit);
    }
  }

  // Finds what the strategy with the least bound costs, for the others have to be cheaper than
  // that. False: there is no strategy.
  bool find_first() {
    Candidate first;
    walk(
        0, [&] { return first.bound - 1; },
        [&](Price bound) {
          if (accepted(rows_)) first = {bound, 0, rows_};
        });
    if (first.bound >= kNoPrice) return false;
    least_ = first.bound;
    for (OperandPrices& operand : operands_) {
      while (!operand.known(first.rows)) operand.find_out(first.rows, kNoPrice);
    }
    for (OutputPrices& output : outputs_) output.find_out(first.rows);
    enough_ = total(first.rows);
    first_ = first.rows;
    return true;
  }

  void collect_alternatives() {
    std::size_t place = 0;
    walk(
        0, [&] { return std::min(enough_, kNoPrice - 1); },
        [&](Price bound) {
          if (place == kMaxStrategies) throw SearchTooLong("too many strategies to compare");
          alternatives_.push({bound, place++, rows_});
        });
  }

  void try_alternatives() {
    while (!alternatives_.empty() && alternatives_.top() < best_) {
      Candidate alternative = alternatives_.top();
      alternatives_.pop();
      least_ = alternative.bound;
      if (accepted(alternative.rows)) try_out(alternative);
    }
  }

  // Finds out what a strategy costs, as far as it may still be the cheapest.
  void try_out(Candidate& alternative) {
    for (std::size_t c = 0; c < operands_.size(); ++c) {
      operands_[c].find_out(alternative.rows, most_of(c, alternative.rows));
      alternative.bound = total(alternative.rows);
      if (!may_win(alternative)) return;
    }
    for (OutputPrices& output : outputs_) {
      if (!output.may_find_out(alternative.rows)) {
        throw SearchTooLong("too many layouts of outputs to price");
      }
      output.find_out(alternative.rows);
    }
    alternative.bound = total(alternative.rows);
    if (!may_win(alternative)) return;
    if (all_known(alternative.rows)) {
      best_ = alternative;
      found_ = true;
    } else {
      alternatives_.push(alternative);
    }
  }

  [[nodiscard]] bool may_win(const Candidate& alternative) const {
    return alternative.bound <= enough_ && alternative < best_;
  }

  // What an operand of the class may cost at most in a strategy that may still be the cheapest.
  Price most_of(std::size_t c, const Rows& rows) {
    const Price most = std::min(enough_, best_.bound);
    if (most >= kNoPrice) return kNoPrice;
    const Price others = total(rows) - times(operands_[c].at_least(rows), sharers_[c]);
    return (most - others) / sharers_[c];
  }

  // Takes the cheapest of what was found, the first one tried and torch's choice. False: of none
  // of them the price is known.
  bool settle_for_known() {
    if (!found_ && enough_ < kNoPrice) keep_if_better(first_);
    const Decision torchs = decide(problem_);
    if (torchs.verdict == Verdict::kFound && constraints_hold(problem_, torchs.rows)) {
      try {
        for (OperandPrices& operand : operands_) operand.plan(torchs.rows, kNoPrice);
        for (OutputPrices& output : outputs_) output.find_out(torchs.rows);
        keep_if_better(torchs.rows);
      } catch (const OutsidePlanSpace&) {
        // Then it is not among them, and torch's way is taken if nothing else is known.
        if (!found_) return false;
      }
    }
    if (!found_) return false;
    result_.gap = std::max(0.0, microseconds(best_.bound) - microseconds(least_));
    return true;
  }

  void keep_if_better(const Rows& rows) {
    const Price price = total(rows);
    if (price >= best_.bound) return;
    best_ = {price, 0, rows};
    found_ = true;
  }

  Price times(Price price, int count) const {
    return price >= kNoPrice / count ? kNoPrice : price * count;
  }

  Price bound_from(int m) {
    Price bound = 0;
    for (std::size_t c = 0; c < operands_.size(); ++c) {
      bound = add(bound, times(operands_[c].at_least_from(rows_, m), sharers_[c]));
    }
    return bound;
  }

  Price total(const Rows& rows) {
    Price total = 0;
    for (std::size_t c = 0; c < operands_.size(); ++c) {
      total = add(total, times(operands_[c].at_least(rows), sharers_[c]));
    }
    for (const OutputPrices& output : outputs_) total = add(total, output.at_least(rows));
    return total;
  }

  bool all_known(const Rows& rows) {
    return std::all_of(operands_.begin(), operands_.end(),
                       [&](const OperandPrices& operand) { return operand.known(rows); }) &&
           std::all_of(outputs_.begin(), outputs_.end(),
                       [&](const OutputPrices& output) { return output.known(rows); });
  }

  bool accepted(const Rows& rows) {
    if (!problem_.accepts) return true;
    const auto known = accepted_.find(rows);
    if (known != accepted_.end()) return known->second;
    return accepted_.emplace(rows, problem_.accepts(rows)).first->second;
  }

  // Nothing passed the filters, or what did is out of reach of every plan.
  Verdict why_none() {
    const Verdict verdict = for_each_valid(problem_, [&](const Rows& rows) {
      return accepted(rows) ? Visit::kTaken : Visit::kRejected;
    });
    return verdict == Verdict::kFound ? Verdict::kUnreachable : verdict;
  }

  ExactDecision finish_found() {
    for (std::size_t i = 0; i < problem_.operands.size(); ++i) {
      const Price price = operands_[classes_.of(static_cast<int>(i))].at_least(best_.rows);
      result_.decision.operand_costs.push_back(microseconds(price));
    }
    for (const OutputPrices& output : outputs_) {
      result_.output_cost += microseconds(output.at_least(best_.rows));
    }
    return finish(Verdict::kFound);
  }

  ExactDecision finish(Verdict verdict) {
    Decision& decision = result_.decision;
    decision.verdict = verdict;
    decision.rows = best_.rows;
    decision.cost = python_sum(decision.operand_costs, problem_.dialect.compensated_sum);
    for (const OperandPrices& operand : operands_) result_.moves += operand.moves();
    decision.nodes = result_.moves;
    return std::move(result_);
  }

  const Problem& problem_;
  const ExactTerms& terms_;
  OperandClasses classes_;
  Filter filter_;
  std::vector<Filter::Chosen> chosen_;   // per mesh dim: by the rows left of it
  std::vector<OperandPrices> operands_;  // per class
  std::vector<int> sharers_;             // operands of each class
  std::vector<OutputPrices> outputs_;
  std::map<Rows, bool> accepted_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> alternatives_;
  Rows rows_{};
  Candidate best_;
  bool found_ = false;
  Rows first_{};             // a strategy whose price is known
  Price enough_ = kNoPrice;  // and that price
  Price least_ = 0;          // that any strategy costs
  ExactDecision result_;
};

}  // namespace

ExactDecision decide_exactly(const Problem& problem, const ExactTerms& terms) {
  return Search(problem, terms).run();
}

}  // namespace shardprop
