#include "graph/search/search.h"

#include <algorithm>
#include <cmath>

#include "graph/bounds/opening.h"
#include "graph/index.h"
#include "graph/search/polish.h"

namespace shardprop::graph {
namespace {

// An answer within this part of the objective is as good: removal then ends ties among answers.
constexpr double kSame = 1e-10;
// The first pass is worth more than all that comes before it: it may end so much after the time, or
// after presolve where that took longer.
constexpr double kGrace = 0.05;
// Elimination this small costs less than another pass, and is tried as soon as it is possible.
constexpr double kSmallEntries = 1 << 12, kSmallWork = 1 << 16;
constexpr int kRootEvaluations = 24, kNodeEvaluations = 4;
// Branch and bound keeps a copy of all messages per level.
constexpr double kMostCopiedBytes = 1 << 30;
// As long as it helps, each with as many passes as there were before.
constexpr int kRecombinations = 3;

}  // namespace

Search::Search(const Model& model, const Options& options, Ticker& ticker)
    : model_(model),
      options_(options),
      ticker_(ticker),
      multipliers_(model.sides.size(), 0.0),
      scale_(model.scale()),
      grace_(kGrace + std::max(0.0, ticker.seconds() - options.time_limit)) {}

double Search::cutoff() const {
  if (best_ == kInfinity) return assumed_;
  const double same =
      std::max(kSame * std::max(scale_, std::abs(best_)), options_.relative_gap * std::abs(best_));
  return std::min(assumed_, best_ - same);
}

double Search::bound() const { return found() ? std::min(bound_, cutoff()) : bound_; }

void Search::offer(std::vector<int> chosen) {
  note(chosen);
  const double cost = polish(model_, chosen, interrupt_);
  note(chosen);
  if (cost >= best_) return;
  best_ = cost;
  best_chosen_ = std::move(chosen);
}

void Search::note(const std::vector<int>& chosen) {
  if (model_.sides.empty() || !is_whole_) return;
  noted_.resize(model_.unary.size());
  for (int v = 0; v < model_.variables(); ++v) noted_[at(model_.first[at(v)] + chosen[at(v)])] = 1;
}

void Search::suggest(std::vector<int> chosen) { offer(std::move(chosen)); }

bool Search::stopped() {
  stop_ = stop_ || ticker_.tick(iterations, bound_, best_, grace_);
  return stop_;
}

// One pass ahead and back. False: the node is closed, or the time is up.
bool Search::pass(Node& node) {
  ++iterations;
  const std::int64_t removed_before = node.passing.removed();
  if (!node.passing.pass_ahead(interrupt_)) {
    node.bound = kInfinity;
    return false;
  }
  if (stop_) return false;
  if (!node.passing.chosen().empty()) offer(node.passing.chosen());
  node.bound = std::max(node.bound, node.passing.pass_back(cutoff(), interrupt_));
  removed += node.passing.removed() - removed_before;
  grace_ = 0;
  if (stop_ || closed(node)) return false;
  if (is_root()) bound_ = std::max(bound_, node.bound);
  return true;
}

// The bound of the root, and with it that of all answers that beat the cutoff.
void Search::raise(Node& root, Bound bound) {
  root.bound = std::max(root.bound, bound);
  bound_ = std::max(bound_, std::min(root.bound, cutoff()));
}

// Passes until the bound has not moved by a thousandth of the gap for `patience` passes.
void Search::tighten(Node& node, int patience) {
  int idle = 0;
  double marked = -kInfinity;
  std::int64_t marked_removed = node.passing.removed();
  for (int i = 1; idle < patience && !stopped(); ++i) {
    if (!model_.sides.empty() && !leave_room(model_, node.passing)) {
      node.bound = kInfinity;
      return;
    }
    if (!pass(node)) return;
    const double scale = std::max(scale_, std::abs(node.bound));
    const double gap = best_ < kInfinity ? best_ - node.bound : scale;
    const bool moved = node.bound > marked + std::max(1e-3 * std::min(gap, scale), 1e-12 * scale) ||
                       node.passing.removed() > marked_removed + 8;
    idle = moved ? 0 : idle + 1;
    if (moved) {
      marked = node.bound;
      marked_removed = node.passing.removed();
    }
    if (i % 4 == 0 && model_.sides.empty() && eliminate_within(node, kSmallEntries, kSmallWork)) {
      return;
    }
  }
}

// Without sides. True: the node is closed, its best answer offered.
bool Search::eliminate_within(Node& node, double most_entries, double most_work) {
  const EliminationOrder order = elimination_order(model_, node.passing.prices, most_entries);
  for (const auto& live : order.live) {
    if (!live.empty()) continue;
    node.bound = kInfinity;
    return true;
  }
  if (order.widest > most_entries || order.work > most_work) return false;
  const Elimination answer = eliminate(model_, order, interrupt_);
  if (answer.outcome == Elimination::Outcome::kTooLarge ||
      answer.outcome == Elimination::Outcome::kStopped) {
    return false;
  }
  width = std::max(width, order.width);
  if (answer.outcome == Elimination::Outcome::kSolved) offer(answer.chosen);
  node.bound = kInfinity;
  return true;
}

int Search::branch_variable(const Node& node) const {
  int best = -1;
  double most = -1;
  for (int v = 0; v < model_.variables(); ++v) {
    const int left = node.passing.left(v);
    if (left < 2) continue;
    const auto links = static_cast<double>(model_.back[at(v)].size() + model_.ahead[at(v)].size());
    const double score = links * std::log2(left) + 1e-3 * left;
    if (score > most) most = score, best = v;
  }
  return best;
}

// With sides. Depth first: each turn takes one label of one variable out, after what it leads to is
// explored.
Search::Bound Search::explore(Node& node, int depth) {
  const int node_patience = (options_.patience + 2) / 3;
  const double copied =
      static_cast<double>(depth) * 16.0 * static_cast<double>(model_.unary.size());
  while (!stopped() && !closed(node) && iterations < most_iterations_) {
    if (deepen(node)) break;
    const int v = branch_variable(node);
    if (v < 0 || stopped() || copied > kMostCopiedBytes) return node.bound;
    ++nodes;
    const double* own = node.passing.prices.data() + model_.first[at(v)];
    int label = node.passing.chosen().empty() ? -1 : node.passing.chosen()[at(v)];
    if (label < 0 || own[label] == kInfinity) {
      label = static_cast<int>(std::min_element(own, own + model_.labels(v)) - own);
    }
    Node child = node;
    child.passing.keep_only(v, label);
    tighten(child, node_patience);
    if (!closed(child) && node_patience > 0) tune_multipliers(child, kNodeEvaluations, 1);
    const Bound below = explore(child, depth + 1);
    if (stop_ || below < cutoff()) return std::min(below, node.bound);
    node.passing.remove(v, label);
    tighten(node, node_patience);
  }
  return closed(node) ? kInfinity : node.bound;
}

// With sides: multipliers alone lead to answers that overdraw and to ones that are too dear, in
// which alike parts of a model all choose alike. The best mixture of those met takes some of each:
// a search among their labels alone, in which few are left.
void Search::recombine(const Node& root, std::int64_t passes) {
  if (noted_.empty()) return;
  const std::int64_t removed_before = removed, nodes_before = nodes;
  most_iterations_ = iterations + passes;
  Node among = root;
  for (int v = 0; v < model_.variables(); ++v) {
    for (int l = 0; l < model_.labels(v); ++l) {
      if (!noted_[at(model_.first[at(v)] + l)]) among.passing.remove(v, l);
    }
  }
  is_whole_ = false;
  tighten(among, options_.patience);
  if (!closed(among) && !stop_) (void)explore(among, 1);
  most_iterations_ = std::numeric_limits<std::int64_t>::max();
  is_whole_ = true;
  removed = removed_before, nodes = nodes_before;
}

// A bound and mostly an answer, however little time there is.
void Search::open() {
  bound_ = least_prices(model_);
  if (bound_ == kInfinity) return;
  offer(greedy_choice(model_, interrupt_));
}

void Search::run() {
  open();
  Node root{MessagePassing(model_), multipliers_};
  set_multipliers(model_, multipliers_, root.passing);
  tighten(root, options_.patience);
  grace_ = 0;
  raise(root, root.bound);
  if (!closed(root) && !stop_ && options_.patience > 0) {
    tune_multipliers(root, kRootEvaluations, 3);
  }
  raise(root, root.bound);
  multipliers_ = root.multipliers;
  const std::int64_t passes = iterations;
  for (int i = 0; i < kRecombinations && !model_.sides.empty() && !closed(root) && !stop_; ++i) {
    const double before = best_;
    recombine(root, passes);
    if (!(best_ < before)) break;
    tighten(root, options_.patience);
    raise(root, root.bound);
  }
  if (stop_ && !closed(root)) return;
  raise(root, model_.sides.empty() ? narrow_gap(root) : explore(root, 0));
}

}  // namespace shardprop::graph
