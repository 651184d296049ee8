#include "graph/bounds/multipliers.h"

#include <algorithm>

#include "graph/index.h"

namespace shardprop::graph {
namespace {
// Whether some label of `term` was removed for want of room; sets `dead` where none is left.
bool remove_too_large(const Model& model, const Side::Term& term, double room,
                      MessagePassing& passing, bool& dead) {
  bool removed = false, any = false;
  for (std::size_t l = 0; l < term.amounts.size(); ++l) {
    const int label = static_cast<int>(l);
    if (passing.prices[at(model.first[at(term.cluster)] + label)] == kInfinity) continue;
    if (term.amounts[l] > room) {
      passing.remove(term.cluster, label);
      removed = true;
    } else {
      any = true;
    }
  }
  dead |= !any;
  return removed;
}

}  // namespace

void set_multipliers(const Model& model, const Multipliers& multipliers, MessagePassing& passing) {
  for (std::size_t l = 0; l < model.unary.size(); ++l) {
    if (passing.prices[l] != kInfinity) passing.prices[l] = model.unary[l];
  }
  passing.constant = 0;
  for (std::size_t s = 0; s < model.sides.size(); ++s) {
    if (multipliers[s] == 0) continue;
    passing.constant -= multipliers[s] * model.sides[s].budget;
    for (const auto& term : model.sides[s].terms) {
      double* prices = passing.prices.data() + model.first[at(term.cluster)];
      for (std::size_t l = 0; l < term.amounts.size(); ++l) {
        prices[l] += multipliers[s] * term.amounts[l];
      }
    }
  }
}

bool leave_room(const Model& model, MessagePassing& passing) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (const Side& side : model.sides) {
      std::vector<double> least;
      double sum = 0;
      for (const auto& term : side.terms) {
        least.push_back(kInfinity);
        for (std::size_t l = 0; l < term.amounts.size(); ++l) {
          if (passing.prices[at(model.first[at(term.cluster)]) + l] == kInfinity) continue;
          least.back() = std::min(least.back(), term.amounts[l]);
        }
        sum += least.back();
      }
      // Rounding of the sums must not count as an excess.
      const double slack = 1e-12 * side.budget;
      if (sum > side.budget + slack) return false;
      bool dead = false;
      for (std::size_t t = 0; t < side.terms.size(); ++t) {
        const double room = side.budget + slack - (sum - least[t]);
        changed |= remove_too_large(model, side.terms[t], room, passing, dead);
      }
      if (dead) return false;
    }
  }
  return true;
}

double overdraft(const Side& side, const std::vector<int>& chosen) {
  double sum = 0;
  for (const auto& term : side.terms) sum += term.amounts[at(chosen[at(term.cluster)])];
  return sum - side.budget;
}

}  // namespace shardprop::graph
