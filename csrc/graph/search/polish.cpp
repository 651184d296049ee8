#include "graph/search/polish.h"

#include <algorithm>

#include "graph/index.h"

namespace shardprop::graph {
namespace {

constexpr int kSweeps = 20;
// Twice what removal and elimination allow for rounding, so that what they find is accepted.
constexpr double kSlack = 2e-12;

double beyond(double used, double budget) { return std::max(0.0, used - budget - kSlack * budget); }

class Polisher {
 public:
  Polisher(const Model& model, std::vector<int>& chosen)
      : model_(model), chosen_(chosen), terms_(at(model.sides.empty() ? 0 : model.variables())) {
    for (std::size_t s = 0; s < model.sides.size(); ++s) {
      double sum = 0;
      for (const auto& term : model.sides[s].terms) {
        terms_[at(term.cluster)].emplace_back(s, &term.amounts);
        sum += term.amounts[at(chosen[at(term.cluster)])];
      }
      used_.push_back(sum);
    }
  }

  bool improve(int v) {
    const int now = chosen_[at(v)];
    gather(v);
    int best = now;
    double best_excess = excess_with(v, now), best_price = prices_[at(now)];
    for (int l = 0; l < model_.labels(v); ++l) {
      // Most labels are dearer: the sides are looked at only where it matters.
      if (best_excess == 0 && !(prices_[at(l)] < best_price)) continue;
      if (prices_[at(l)] == kInfinity) continue;
      const double excess = excess_with(v, l);
      if (excess < best_excess || (excess == best_excess && prices_[at(l)] < best_price)) {
        best = l, best_excess = excess, best_price = prices_[at(l)];
      }
    }
    // Rounding must not make two labels take turns for ever.
    if (best == now) return false;
    for (const auto& [s, amounts] : terms(v))
      used_[s] += (*amounts)[at(best)] - (*amounts)[at(now)];
    chosen_[at(v)] = best;
    return true;
  }

 private:
  using Terms = std::vector<std::pair<std::size_t, const std::vector<double>*>>;
  [[nodiscard]] const Terms& terms(int v) const {
    static const Terms none;
    return terms_.empty() ? none : terms_[at(v)];
  }

  [[nodiscard]] double excess_with(int v, int label) const {
    double sum = 0;
    const int now = chosen_[at(v)];
    for (const auto& [s, amounts] : terms(v)) {
      const double used = used_[s] + ((*amounts)[at(label)] - (*amounts)[at(now)]);
      sum += beyond(used, model_.sides[s].budget);
    }
    return sum;
  }

  // Price of each label of v beside its neighbours' choices.
  void gather(int v) {
    const double* own = model_.unary.data() + model_.first[at(v)];
    prices_.assign(own, own + model_.labels(v));
    for (const int e : model_.back[at(v)]) {
      const Link& link = model_.links[at(e)];
      const Matrix& matrix = model_.matrices[at(link.matrix)];
      const double* row =
          matrix.prices.data() + at(link.rows[at(chosen_[at(link.u)])]) * at(matrix.columns);
      for (std::size_t l = 0; l < prices_.size(); ++l) prices_[l] += row[link.columns[l]];
    }
    for (const int e : model_.ahead[at(v)]) {
      const Link& link = model_.links[at(e)];
      const Matrix& matrix = model_.matrices[at(link.matrix)];
      const double* column =
          matrix.transposed.data() + at(link.columns[at(chosen_[at(link.v)])]) * at(matrix.rows);
      for (std::size_t l = 0; l < prices_.size(); ++l) prices_[l] += column[link.rows[l]];
    }
  }

  const Model& model_;
  std::vector<int>& chosen_;
  std::vector<Terms> terms_;    // by variable
  std::vector<double> used_;    // by side
  std::vector<double> prices_;  // scratch
};

}  // namespace

double excess(const Model& model, const std::vector<int>& chosen) {
  double total = 0;
  for (const Side& side : model.sides) {
    double sum = 0;
    for (const auto& term : side.terms) sum += term.amounts[at(chosen[at(term.cluster)])];
    total += beyond(sum, side.budget);
  }
  return total;
}

double polish(const Model& model, std::vector<int>& chosen, const Interrupt& interrupt) {
  Polisher polisher(model, chosen);
  Meter meter(interrupt);
  for (int sweep = 0; sweep < kSweeps && !meter.stopped(); ++sweep) {
    bool changed = false;
    for (int v = 0; v < model.variables(); ++v) {
      changed |= polisher.improve(v);
      const std::size_t links = model.back[at(v)].size() + model.ahead[at(v)].size();
      if (meter.stop_after(at(model.labels(v)) * (links + 1))) break;
    }
    if (!changed) break;
  }
  return excess(model, chosen) > 0 ? kInfinity : model.cost(chosen);
}

}  // namespace shardprop::graph
