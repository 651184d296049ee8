// Closing the gap where there are no sides and the tables of exact elimination are too large: by
// turns better answers and a better bound, each turn with larger tables.
#include <algorithm>

#include "graph/index.h"
#include "graph/search/mini_buckets.h"
#include "graph/search/neighbourhoods.h"
#include "graph/search/search.h"

namespace shardprop::graph {
namespace {

constexpr double kFirstEntries = 1 << 12, kMostEntries = 1 << 22, kMoreEntries = 8;
constexpr double kMostWork = 1 << 28;                          // of exact elimination
constexpr std::size_t kMostLabelPairs = std::size_t{1} << 23;  // of labels, over all links: 64 MB
// By entry of a table: prices that are looked at for better answers, then labels that are tried for
// a better bound.
constexpr double kEffort = 64;
// In how many neighbourhoods each variable is then, on the average.
constexpr double kCovered = 2;

}  // namespace

// Returns without a proof only where not even the smallest tables can be made.
Search::Bound Search::narrow_gap(Node& root) {
  Neighbourhoods neighbourhoods(model_);
  double most = std::min(kMostEntries, options_.most_entries);
  double entries = std::min(kFirstEntries, most), effort = kEffort;
  while (!stopped() && !closed(root)) {
    if (eliminate_within(root, options_.most_entries, kMostWork)) break;
    const double work = effort * entries;
    improve(root, neighbourhoods, entries, work);
    if (stop_ || closed(root)) break;
    if (search_below(root, entries, static_cast<std::int64_t>(work))) {
      if (entries >= most) effort *= 2;
    } else {
      if (entries <= 1) break;
      most = std::max(1.0, entries / kMoreEntries);
    }
    tighten(root, options_.patience);  // a better answer removes labels
    raise(root, root.bound);
    entries = std::min(kMoreEntries * entries, most);
  }
  return closed(root) ? kInfinity : root.bound;
}

// By exact elimination of neighbourhoods and by random changes, both for as long.
void Search::improve(const Node& node, Neighbourhoods& neighbourhoods, double most_entries,
                     double work) {
  // What it takes to look at all of the model.
  const std::size_t links = model_.links.size() / std::max<std::size_t>(1, at(model_.variables()));
  const auto size = static_cast<double>((1 + links) * model_.unary.size());
  const double enough = kCovered * model_.variables();
  double covered = 0, eliminated = 0, changed = 0;
  while (found() && !stopped() && !closed(node)) {
    if (covered > enough && eliminated + changed > work) break;
    if (eliminated <= changed) {
      const EliminationOrder order =
          neighbourhoods.next(best_chosen_, node.passing.prices, most_entries);
      const Elimination answer = eliminate(model_, order, interrupt_);
      if (answer.outcome == Elimination::Outcome::kSolved) offer(answer.chosen);
      eliminated += order.work + size;
      covered += 1 + static_cast<double>(order.steps.size());
    } else {
      offer(neighbourhoods.changed(best_chosen_));
      changed += size;
    }
  }
}

// By mini-buckets, and by searches below cutoffs that rise from the bound: what costs more than the
// best answer is then never looked at. False: tables of this size take too much.
bool Search::search_below(Node& node, double most_entries, std::int64_t most_tried) {
  const EliminationOrder order = order_for_buckets(model_, node.passing.prices);
  if (pairs_of_labels(model_, order.live) > kMostLabelPairs) return false;
  Meter meter(interrupt_);
  const MiniBuckets buckets(slacks(model_, node.passing, order.live), order, most_entries, meter);
  if (meter.stopped()) return true;
  if (!buckets.is_made()) return false;
  raise(node, buckets.bound());
  double step = first_step(node);
  for (int round = 0; !stopped() && !closed(node); ++round, step *= 2) {
    const double tried = next_cutoff(node, step, round);
    const Elimination answer = buckets.search(tried, most_tried, meter, nodes);
    if (!answer.chosen.empty()) offer(answer.chosen);
    if (answer.outcome == Elimination::Outcome::kTooLarge || stop_) break;
    raise(node, std::min(tried, cutoff()));
  }
  return true;
}

}  // namespace shardprop::graph
