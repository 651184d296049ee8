// Proving a node with resource rows by cutoffs that rise from its bound.
//
// The lists of an elimination within a gap grow fast with the gap, and the best answer known may be
// far from the least. So first it is tried whether there is an answer within a small part of the
// gap. If there is, the least of those is the least of all; if not, that part is added to the
// bound.
#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/search/eliminate_within_gap.h"
#include "graph/search/search.h"

namespace shardprop::graph {
namespace {

constexpr double kFirstPart = 1.0 / 32;
constexpr double kFirstGap = 1e-3;  // of the bound, where no answer is known
// Then all answers are asked for: without one to end at, the parts would double for ever.
constexpr int kMostRounds = 24;
constexpr int kPatience = 3;
// A list that fails costs about a microsecond per state. At the root that is worth a second, since
// branching takes many; below, about as long as the passes of a node.
constexpr std::size_t kRootStates = std::size_t{1} << 20, kNodeStates = std::size_t{1} << 16;
constexpr std::size_t kCompared = 64;  // per state; all, for the root of the problem

}  // namespace

// The first of the steps by which cutoffs rise from a node's bound; each is twice as large as that
// before it.
double Search::first_step(const Node& node) const {
  const bool known = best_ < kInfinity && node.bound > -kInfinity;
  return known ? kFirstPart * (cutoff() - node.bound)
               : kFirstGap * std::max(scale_, std::abs(node.bound));
}

double Search::next_cutoff(const Node& node, double step, int round) const {
  const bool within = round < kMostRounds && node.bound + step > node.bound;
  return within ? std::min(cutoff(), node.bound + step) : cutoff();
}

// True: the node is closed, its best answer offered. Otherwise its bound may have risen.
bool Search::deepen(Node& node) {
  double step = first_step(node);
  for (int round = 0; !stopped() && !closed(node); ++round, step *= 2) {
    const double tried = assumed_ = next_cutoff(node, step, round);
    const std::int64_t removed_before = removed;  // what a cutoff that is only tried removes is not
    Node trial = node;
    if (options_.patience > 0) tighten(trial, kPatience);
    const bool done = !stop_ && (closed(trial) || list_states(trial));
    removed = removed_before;
    assumed_ = kInfinity;
    if (!done) return false;
    // Answers found on the way have lowered what later steps of the trial removed by.
    node.bound = std::max(node.bound, std::min(tried, cutoff()));
    if (is_root()) bound_ = std::max(bound_, node.bound);
  }
  return closed(node);
}

// Elimination within the gap. True: nothing is left in the node below the cutoff; its best answer
// is offered.
bool Search::list_states(const Node& node) {
  const EliminationOrder order = order_for_lists(model_, node.passing.prices);
  for (const auto& live : order.live) {
    if (live.empty()) return true;
  }
  const std::size_t most = std::min(options_.most_points, nodes == 0 ? kRootStates : kNodeStates);
  const std::size_t compared =
      is_root() ? std::numeric_limits<std::size_t>::max() : kCompared * most;
  const Elimination answer = eliminate_within_gap(model_, node.passing, node.multipliers, order,
                                                  cutoff(), most, compared, interrupt_);
  if (answer.outcome == Elimination::Outcome::kTooLarge ||
      answer.outcome == Elimination::Outcome::kStopped) {
    return false;
  }
  width = std::max(width, order.width);
  if (answer.outcome == Elimination::Outcome::kSolved) offer(answer.chosen);
  return true;
}

}  // namespace shardprop::graph
