// Lists of assignments that may still be part of an answer, and joining them. Unlike a table, a
// list holds only what a bound has not ruled out, however many labels its variables have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/interrupt.h"

namespace shardprop::graph {

// Parallel arrays: state i has labels[i * scope.size()...], amounts[i * sides...] and origins
// origins[i * sources.size()...]: the states of the sources that it was joined from.
struct States {
  std::vector<int> scope;            // variables
  std::vector<std::int32_t> labels;  // live indices, in the order of the scope
  std::vector<double> slacks;        // what the state adds to the bound
  std::vector<double> amounts;       // by side
  std::vector<int> sources;          // ids of lists
  std::vector<std::size_t> origins;

  [[nodiscard]] std::size_t size() const { return slacks.size(); }
};

// What rules a state out, and what makes one better than another.
struct Limits {
  double gap;                       // slacks must stay below
  std::vector<double> multipliers;  // by side: the price of a state is slack - multiplier * amount
  std::vector<double> budgets;      // amounts must not exceed
  std::size_t most;                 // states of a list
  std::size_t most_compared;        // pairs of states of it: with several sides, each with each
  std::vector<std::size_t> sizes;   // labels left, by variable

  [[nodiscard]] std::size_t sides() const { return budgets.size(); }
  [[nodiscard]] double price(const States& states, std::size_t i) const;
};

enum class Joined { kDone, kTooMany, kStopped };

// now = all pairs of a state of `now` and one of `other` that agree where both have a variable.
// `source`: the id of `other`, or -1 if nothing need be known of it later.
[[nodiscard]] Joined join(States& now, const States& other, int source, const Limits& limits,
                          Meter& meter);

// Of each set of states that agree in `variables` only those that no other is at least as good as,
// in price and every amount.
[[nodiscard]] Joined leave_best(States& states, const std::vector<int>& variables,
                                const Limits& limits, Meter& meter);

}  // namespace shardprop::graph
