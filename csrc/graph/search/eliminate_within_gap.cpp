#include "graph/search/eliminate_within_gap.h"

#include <algorithm>

#include "graph/bounds/slacks.h"
#include "graph/index.h"
#include "graph/search/states.h"

namespace shardprop::graph {
namespace {

// Rounding of sums of amounts must not exclude an answer that just fits.
constexpr double kSlack = 1e-12;
// Keys of states are numbers of 64 bits.
constexpr double kMostKeys = 1e18;
// Of labels, over all links: 128 MB, and some tens of milliseconds.
constexpr std::size_t kMostPairs = std::size_t{1} << 24;

class GapElimination {
 public:
  GapElimination(const Model& model, const EliminationOrder& order, Slacks slacks, Limits limits)
      : order_(order),
        slacks_(std::move(slacks)),
        limits_(std::move(limits)),
        pairs_(at(model.variables())),
        waiting_(at(model.variables())) {
    fill_amounts(model);
    for (const Slacks::Pair& pair : slacks_.pairs) {
      for (const int v : {pair.u, pair.v}) pairs_[at(v)].push_back(&pair);
    }
    done_.assign(at(model.variables()), false);
  }

  Elimination run(Meter& meter) {
    for (const double budget : limits_.budgets) {
      if (budget < 0) return {Elimination::Outcome::kNoAnswer, {}};
    }
    for (const EliminationStep& step : order_.steps) {
      const Joined joined = eliminate(step.variable, meter);
      if (joined != Joined::kDone) return failed(joined);
    }
    States all = alone();
    for (const int root : roots_) {
      const Joined joined = join(all, lists_[at(root)], root, limits_, meter);
      if (joined != Joined::kDone) return failed(joined);
      const Joined left = leave_best(all, all.scope, limits_, meter);
      if (left != Joined::kDone) return failed(left);
    }
    return follow(all);
  }

 private:
  static Elimination failed(Joined joined) {
    return {joined == Joined::kStopped ? Elimination::Outcome::kStopped
                                       : Elimination::Outcome::kTooLarge,
            {}};
  }

  // Less the least of each variable, which the budgets lose.
  void fill_amounts(const Model& model) {
    const std::size_t sides = model.sides.size();
    amounts_.resize(at(model.variables()));
    for (std::size_t v = 0; v < amounts_.size(); ++v) {
      amounts_[v].assign(order_.live[v].size() * sides, 0.0);
      limits_.sizes.push_back(order_.live[v].size());
    }
    for (std::size_t s = 0; s < sides; ++s) {
      const Side& side = model.sides[s];
      double budget = side.budget + kSlack * side.budget;
      for (const auto& term : side.terms) {
        const auto& live = order_.live[at(term.cluster)];
        double least = kInfinity;
        for (const int l : live) least = std::min(least, term.amounts[at(l)]);
        budget -= least;
        for (std::size_t i = 0; i < live.size(); ++i) {
          amounts_[at(term.cluster)][i * sides + s] = term.amounts[at(live[i])] - least;
        }
      }
      limits_.budgets.push_back(budget);
    }
  }

  // The one state of nothing.
  States alone() const {
    States states;
    states.slacks.push_back(0);
    states.amounts.assign(limits_.sides(), 0.0);
    return states;
  }

  States labels_of(int v) const {
    States states;
    states.scope.push_back(v);
    const std::size_t sides = limits_.sides();
    for (std::size_t i = 0; i < slacks_.own[at(v)].size(); ++i) {
      if (slacks_.own[at(v)][i] >= limits_.gap) continue;
      states.labels.push_back(static_cast<std::int32_t>(i));
      states.slacks.push_back(slacks_.own[at(v)][i]);
      const double* amounts = amounts_[at(v)].data() + i * sides;
      states.amounts.insert(states.amounts.end(), amounts, amounts + sides);
    }
    return states;
  }

  States pairs_of(const Slacks::Pair& pair) const {
    States states;
    states.scope = {pair.u, pair.v};
    const std::size_t columns = order_.live[at(pair.v)].size();
    for (std::size_t p = 0; p < pair.prices.size(); ++p) {
      if (pair.prices[p] >= limits_.gap) continue;
      states.labels.push_back(static_cast<std::int32_t>(p / columns));
      states.labels.push_back(static_cast<std::int32_t>(p % columns));
      states.slacks.push_back(pair.prices[p]);
    }
    return states;
  }

  Joined eliminate(int v, Meter& meter) {
    struct Part {
      States pairs;
      int list;  // or -1: the pairs
    };
    std::vector<Part> parts;
    for (const Slacks::Pair* pair : pairs_[at(v)]) {
      if (!done_[at(pair->u)] && !done_[at(pair->v)]) parts.push_back({pairs_of(*pair), -1});
    }
    for (const int list : waiting_[at(v)]) {
      if (!used_[at(list)]) parts.push_back({{}, list});
      used_[at(list)] = true;
    }
    const auto states_of = [this](const Part& part) -> const States& {
      return part.list < 0 ? part.pairs : lists_[at(part.list)];
    };
    States now = labels_of(v);
    // Those that bring the fewest new states first: what they rule out is not joined any more.
    while (!parts.empty()) {
      const auto cost = [&](const Part& part) {
        const States& states = states_of(part);
        double combinations = 1;
        for (const int w : states.scope) {
          if (std::find(now.scope.begin(), now.scope.end(), w) == now.scope.end()) continue;
          combinations *= static_cast<double>(limits_.sizes[at(w)]);
        }
        return static_cast<double>(states.size()) / combinations;
      };
      const auto next =
          std::min_element(parts.begin(), parts.end(),
                           [&](const auto& a, const auto& b) { return cost(a) < cost(b); });
      const Joined joined = join(now, states_of(*next), next->list, limits_, meter);
      if (joined != Joined::kDone) return joined;
      parts.erase(next);
    }
    const std::vector<int> rest(now.scope.begin() + 1, now.scope.end());
    const Joined left = leave_best(now, rest, limits_, meter);
    if (left != Joined::kDone) return left;
    return keep(v, std::move(now));
  }

  // The list without v, whose labels are known by its states' numbers.
  Joined keep(int v, States now) {
    const std::size_t width = now.scope.size();
    std::vector<std::int32_t> own, others;
    for (std::size_t i = 0; i < now.size(); ++i) {
      own.push_back(now.labels[i * width]);
      for (std::size_t p = 1; p < width; ++p) others.push_back(now.labels[i * width + p]);
    }
    now.labels = std::move(others);
    now.scope.erase(now.scope.begin());
    total_ += now.size();
    const int id = static_cast<int>(lists_.size());
    for (const int w : now.scope) waiting_[at(w)].push_back(id);
    if (now.scope.empty()) roots_.push_back(id);
    lists_.push_back(std::move(now));
    used_.push_back(false);
    own_.push_back(std::move(own));
    done_[at(v)] = true;
    return total_ > 4 * limits_.most ? Joined::kTooMany : Joined::kDone;
  }

  Elimination follow(const States& all) const {
    if (all.size() == 0) return {Elimination::Outcome::kNoAnswer, {}};
    std::size_t best = 0;
    for (std::size_t i = 1; i < all.size(); ++i) {
      if (limits_.price(all, i) < limits_.price(all, best)) best = i;
    }
    Elimination out{Elimination::Outcome::kSolved, std::vector<int>(order_.live.size())};
    for (std::size_t v = 0; v < order_.live.size(); ++v) out.chosen[v] = order_.live[v][0];
    std::vector<std::pair<int, std::size_t>> open;
    const auto open_sources = [&open](const States& states, std::size_t i) {
      for (std::size_t k = 0; k < states.sources.size(); ++k) {
        open.emplace_back(states.sources[k], states.origins[i * states.sources.size() + k]);
      }
    };
    open_sources(all, best);
    while (!open.empty()) {
      const auto [list, i] = open.back();
      open.pop_back();
      const int v = order_.steps[at(list)].variable;  // lists are made in the order of the steps
      out.chosen[at(v)] = order_.live[at(v)][at(own_[at(list)][i])];
      open_sources(lists_[at(list)], i);
    }
    return out;
  }

  const EliminationOrder& order_;
  Slacks slacks_;
  Limits limits_;
  std::vector<std::vector<double>> amounts_;             // by variable, by label and side
  std::vector<std::vector<const Slacks::Pair*>> pairs_;  // by variable
  std::vector<std::vector<int>> waiting_;                // lists by variable, used ones included
  std::vector<bool> done_, used_;                        // variables; lists
  std::vector<States> lists_;                            // by step
  std::vector<std::vector<std::int32_t>> own_;           // by list and state: the label left out
  std::vector<int> roots_;
  std::size_t total_ = 0;
};

}  // namespace

EliminationOrder order_for_lists(const Model& model, const std::vector<double>& prices) {
  return elimination_order(model, prices, kMostKeys);
}

Elimination eliminate_within_gap(const Model& model, const MessagePassing& passing,
                                 const std::vector<double>& multipliers,
                                 const EliminationOrder& order, double cutoff,
                                 std::size_t most_states, std::size_t most_compared,
                                 const Interrupt& interrupt) {
  if (order.widest > kMostKeys || pairs_of_labels(model, order.live) > kMostPairs) {
    return {Elimination::Outcome::kTooLarge, {}};
  }
  Slacks least = slacks(model, passing, order.live);
  if (least.constant >= cutoff) return {Elimination::Outcome::kNoAnswer, {}};
  Limits limits{cutoff - least.constant, multipliers, {}, most_states, most_compared, {}};
  Meter meter(interrupt);
  return GapElimination(model, order, std::move(least), std::move(limits)).run(meter);
}

}  // namespace shardprop::graph
