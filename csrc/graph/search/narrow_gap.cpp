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
// What a search for better answers may look at without finding one, and one for a better bound, by
// entries of a table; and in how many neighbourhoods each variable is, on the average.
constexpr double kWork = 64, kCovered = 2;
constexpr double kMostWork = 1 << 28;    // of exact elimination: entries of all tables
constexpr double kFirstStep = 1.0 / 32;  // of the gap

}  // namespace

Search::Bound Search::narrow_gap(Node& root) {
  Neighbourhoods neighbourhoods(model_);
  double most = std::min(kMostEntries, options_.most_entries);
  double entries = std::min(kFirstEntries, most), effort = 1;
  while (!stopped() && !closed(root)) {
    if (eliminate_within(root, options_.most_entries, kMostWork)) break;
    const double work = kWork * effort * entries;
    improve(root, neighbourhoods, entries, work);
    if (!search_below(root, entries, static_cast<std::int64_t>(work))) {
      most = std::max(1.0, entries / kMoreEntries);
    }
    tighten(root, options_.patience);  // a better answer removes labels
    if (entries >= most) effort *= 2;
    entries = std::min(kMoreEntries * entries, most);
  }
  return closed(root) ? kInfinity : root.bound;
}

// By exact elimination of neighbourhoods and by random changes, both for as long, until so much of
// it has brought nothing.
void Search::improve(const Node& node, Neighbourhoods& neighbourhoods, double most_entries,
                     double most_work) {
  // What it takes to look at all of the model.
  const std::size_t links = model_.links.size() / at(model_.variables());
  const auto size = static_cast<double>((1 + links) * model_.unary.size());
  double covered = 0, eliminated = 0, changed = 0, since = 0;
  while (found() && !stopped() && !closed(node)) {
    if (covered > kCovered * model_.variables() && eliminated + changed - since > most_work) break;
    const double before = best_;
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
    if (best_ < before) covered = 0, since = eliminated + changed;
  }
}

// By mini-buckets, and by searches below cutoffs that rise from the bound: what costs more than the
// best answer is then never looked at. False: these tables take too much.
bool Search::search_below(Node& node, double most_entries, std::int64_t most_tried) {
  const EliminationOrder order = elimination_order(model_, node.passing.prices, kInfinity);
  Meter meter(interrupt_);
  const MiniBuckets buckets(slacks(model_, node.passing, order.live), order, most_entries, meter);
  if (!buckets.is_made()) return stop_;
  const auto raise = [&](double bound) {
    node.bound = std::max(node.bound, bound);
    bound_ = std::max(bound_, node.bound);
  };
  raise(buckets.bound());
  for (double part = kFirstStep * (cutoff() - node.bound); !stopped() && !closed(node); part *= 2) {
    const double tried = std::min(cutoff(), node.bound + part);
    const Elimination answer = buckets.search(tried, most_tried, meter, nodes);
    if (!answer.chosen.empty()) offer(answer.chosen);
    if (answer.outcome == Elimination::Outcome::kTooLarge || stop_) break;
    raise(std::min(tried, cutoff()));
  }
  return true;
}

}  // namespace shardprop::graph
