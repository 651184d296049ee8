// Every valid strategy in torch's order (that of itertools.product: the last mesh dim varies
// fastest), with its costs. The oracle of the search, and the way to decide where prices depend on
// the order in which torch asks for them.
#pragma once

#include <vector>

#include "search/filter.h"
#include "search/pricer.h"
#include "search/problem.h"

namespace shardprop {

struct Strategy {
  Rows rows;
  std::vector<double> operand_costs;  // microseconds
  double cost;
};

// Prices a strategy; nullopt where torch asserts.
[[nodiscard]] std::optional<Strategy> price_strategy(const Problem& problem, HistoryPricer& pricer,
                                                     const Rows& rows);

// What a visitor makes of a strategy: a rejected one counts as if it had failed torch's filters.
enum class Visit : std::uint8_t { kRejected, kTaken, kStop };

// Calls `visit(rows)` for each that passes torch's filters, save the caller's own (`accepts`) and
// what those say of symbolic sizes. Verdict::kFound if one was taken.
[[nodiscard]] Verdict for_each_valid(const Problem& problem,
                                     const std::function<Visit(const Rows&)>& visit);

// A row that was dropped on `mesh_dim`, after `rows` were chosen for the mesh dims before.
struct Dropped {
  const Rows& rows;
  int mesh_dim, row;
  Filter::Refusal refusal;
};
using Watch = std::function<void(const Dropped&)>;

// Only those strategies whose row on mesh dim m is one of `candidates[m]`, which ascend. `watch`,
// if there is one, is told of every row that is dropped.
using Candidates = std::array<std::vector<std::uint16_t>, kMaxMeshDims>;
[[nodiscard]] Candidates all_rows(const Problem& problem);
[[nodiscard]] Verdict for_each_valid(const Problem& problem, const Candidates& candidates,
                                     const std::function<Visit(const Rows&)>& visit,
                                     const Watch& watch = {});

// Calls `visit(strategy)` for each. Verdict::kFound if there was one.
[[nodiscard]] Verdict for_each_strategy(const Problem& problem,
                                        const std::function<void(const Strategy&)>& visit);

// torch's choice (_select_min_cost_strategy) by looking at every strategy.
[[nodiscard]] Decision decide_by_enumeration(const Problem& problem);

// Does the row leave every positional operand as it is on `mesh_dim`?
[[nodiscard]] bool keeps_operands(const Problem& problem, int mesh_dim, int row);

// Does the strategy do so on every mesh dim?
[[nodiscard]] bool redistributes_nothing(const Problem& problem, const Rows& rows);

}  // namespace shardprop
