// The rows of a pattern for one call: what docs/notation.md says a mesh dim may do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/placement.h"
#include "notation/notation.h"
#include "notation/notation_fit.h"

namespace shardprop {

// A cell of a row. A placeholder may put a constraint on the shards that it stands for.
struct NotedCell {
  Placement placement;
  bool even = false;
  std::int64_t min_local = 0, multiple_of = 1;

  [[nodiscard]] bool is_constrained() const { return even || min_local > 0 || multiple_of > 1; }
  friend bool operator==(const NotedCell&, const NotedCell&) = default;
};
using NotedRow = std::vector<NotedCell>;  // outputs, then operands

// In the order of docs/notation.md, each row once and the all-Replicate row not at all.
//
// Throws FitError and NotationError where the call does not fit the pattern, NeedsSize where a size
// that is an expression would have to be compared.
[[nodiscard]] std::vector<NotedRow> rows_of(const Pattern& pattern, const NotedCall& call);

// For each of these rows the part of the pattern that it follows from, such as "cutting k".
[[nodiscard]] std::vector<std::string> origins_of(const Pattern& pattern, const NotedCall& call);

}  // namespace shardprop
