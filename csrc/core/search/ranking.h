// A decision laid open, for who wants to know why: the cheapest strategies in order, and what the
// rows that came to nothing were dropped for. Every strategy is looked at, so that this takes as
// long as torch's product over mesh dims is large; its sibling search.h finds the first alone.
#pragma once

#include <vector>

#include "search/enumerate.h"
#include "search/problem.h"

namespace shardprop {

// Combinations of rows that are looked at before the ranking gives up with Verdict::kTooLarge.
inline constexpr std::uint64_t kMaxRanked = std::uint64_t{1} << 22;

// Strategies that fell by one row on one mesh dim, at one cell and for one reason.
struct Refused {
  int mesh_dim, row;
  Filter::Refusal refusal;
  std::uint64_t dropped = 0;  // combinations of rows
  Rows before{};              // rows on the mesh dims before, the first time it happened
};

struct Ranking {
  Verdict verdict = Verdict::kNoStrategy;
  // The one that `decide` takes, then by cost, and of equal cost in torch's order.
  std::vector<Strategy> best;
  std::uint64_t considered = 0;   // combinations of rows
  std::uint64_t valid = 0;        // of them
  std::uint64_t ties = 0;         // of those, as cheap as the first of `best`, and it itself
  std::uint64_t turned_down = 0;  // by the caller's own filter, or by what cells ask
  std::vector<Refused> refused;   // by mesh dim, row, cell and reason
};

// At most `limit` strategies of a problem without symbolic sizes.
[[nodiscard]] Ranking rank(const Problem& problem, std::size_t limit);

}  // namespace shardprop
