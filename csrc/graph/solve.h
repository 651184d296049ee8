// Solves an assignment problem to proven optimality where it can.
//
// Presolve (clusters.h, model.h), message passing for a bound and answers, removal of labels that
// cannot beat the best answer, exact elimination of what remains. Where its tables would be too
// large: mini-buckets for a bound and for a search, and elimination of neighbourhoods for answers.
// For resource rows: Lagrangian multipliers, elimination with the amounts as state, within a cutoff
// that rises from the bound, and branch and bound. Deterministic, one thread.
#pragma once

#include <functional>
#include <memory>

#include "graph/problem.h"

namespace shardprop::graph {

// What a later solve of a similar problem can start from.
struct WarmState {
  std::vector<int> label_counts;  // by node, for recognition
  std::size_t edges = 0, rows = 0;
  std::vector<std::int32_t> labels;                    // the best answer; empty if there was none
  std::vector<std::pair<double, double>> multipliers;  // by row: of its upper and lower bound
};

struct Options {
  double time_limit = kInfinity;  // seconds
  double relative_gap = 0;        // stop once the bound is within this part of the objective
  double most_entries = 1 << 24;  // of one table in elimination
  std::size_t most_points = std::size_t{1} << 22;  // states of a list in elimination with rows
  int patience = 12;  // passes without gain after which messages are left; 0: none are passed
  const WarmState* warm = nullptr;
  // Called at most about ten times a second: seconds, passes, lower bound, objective. What it
  // throws ends the solve.
  std::function<void(double, std::int64_t, double, double)> progress;
};

struct Answer {
  enum class Status { kOptimal, kFeasible, kInfeasible, kUnknown } status = Status::kUnknown;
  std::vector<std::int32_t> labels;  // empty if none was found
  double objective = kInfinity;
  double lower_bound = -kInfinity;
  bool proved = false;
  double seconds = 0;
  std::int64_t iterations = 0;  // of message passing
  std::int64_t fixed = 0;       // labels removed, by presolve or by the gap
  int width = -1;               // of the elimination; -1 if it came to none
  std::int64_t nodes = 0;       // of branch and bound; without rows labels that were tried
  std::shared_ptr<const WarmState> state;
};

// Throws ProblemError if the warm state is of a problem with other nodes, labels or edges.
[[nodiscard]] Answer solve(const Problem& problem, const Options& options = {});

}  // namespace shardprop::graph
