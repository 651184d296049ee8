// Depth first along an elimination order in reverse, for each component alone. The tables of a
// variable's bucket say what its label costs, and what those eliminated before it then add at
// least; the messages of the bucket have bounded both so far.
#include <algorithm>
#include <ranges>

#include "graph/index.h"
#include "graph/search/mini_buckets.h"

namespace shardprop::graph {

// The labels of v, the dearest first. `live`: the choices of the variables after it in the order.
void MiniBuckets::choices(int v, double bound, const std::vector<std::size_t>& live,
                          std::vector<Choice>& out) const {
  const Bucket& bucket = buckets_[at(v)];
  bound -= bucket.constant;
  for (const std::size_t message : bucket.messages) {
    bound -= tables_[message].prices[tables_[message].shape.entry(live)];
  }
  out.clear();
  for (const double own : own_[at(v)]) out.push_back({bound + own, out.size()});
  for (const std::size_t table : bucket.tables) {
    const Shape& shape = tables_[table].shape;
    const std::size_t stride = shape.stride(v);
    const double* prices = tables_[table].prices.data() + shape.entry(live) - stride * live[at(v)];
    for (Choice& choice : out) choice.bound += prices[stride * choice.live];
  }
  std::sort(out.begin(), out.end(), [](const Choice& a, const Choice& b) {
    return a.bound != b.bound ? a.bound > b.bound : a.live > b.live;
  });
}

// The variables that tables tie together, each in the order to decide them.
std::vector<std::vector<int>> MiniBuckets::components() const {
  std::vector<int> parent(order_->live.size());
  for (std::size_t v = 0; v < parent.size(); ++v) parent[v] = static_cast<int>(v);
  const auto root = [&parent](int v) {
    while (parent[at(v)] != v) v = parent[at(v)] = parent[at(parent[at(v)])];
    return v;
  };
  for (const Table& table : tables_) {
    for (const int v : table.shape.scope) parent[at(root(v))] = root(table.shape.scope[0]);
  }
  std::vector<std::vector<int>> of(parent.size());
  for (const EliminationStep& step : std::ranges::reverse_view(order_->steps)) {
    of[at(root(step.variable))].push_back(step.variable);
  }
  of.erase(std::remove_if(of.begin(), of.end(), [](const auto& some) { return some.empty(); }),
           of.end());
  return of;
}

Elimination MiniBuckets::search(double cutoff, std::int64_t most_tried, Meter& meter,
                                std::int64_t& tried) const {
  if (!(constant_ < cutoff)) return {Elimination::Outcome::kNoAnswer, {}};
  const std::int64_t last = tried + most_tried;
  std::vector<std::size_t> live(order_->live.size(), 0);
  auto outcome = Elimination::Outcome::kSolved;
  double least = constant_;
  for (const std::vector<int>& variables : components()) {
    // What the others cost at least is in the bound: this one may cost as much more as the gap.
    double best = kInfinity;
    const auto of = search_one(variables, cutoff, last, meter, tried, live, best);
    if (of != Elimination::Outcome::kSolved) outcome = of;
    if (best == kInfinity) return {outcome, {}};
    least += best - constant_;
  }
  if (outcome == Elimination::Outcome::kSolved && !(least < cutoff)) {
    outcome = Elimination::Outcome::kNoAnswer;
  }
  Elimination out{outcome, std::vector<int>(live.size())};
  for (std::size_t v = 0; v < live.size(); ++v) out.chosen[v] = order_->live[v][live[v]];
  return out;
}

// Of some variables that only tables of their own have in their scopes. `best` becomes what the
// best choice of them costs beside the bound of all others, and `live` is that choice; if there is
// none, it stays infinite.
Elimination::Outcome MiniBuckets::search_one(const std::vector<int>& variables, double cutoff,
                                             std::int64_t last, Meter& meter, std::int64_t& tried,
                                             std::vector<std::size_t>& live, double& best) const {
  std::vector<std::size_t> now = live;
  std::vector<std::vector<Choice>> open(variables.size());  // by depth: what is left to try
  choices(variables[0], constant_, now, open[0]);
  for (std::size_t levels = 1; levels > 0;) {
    const std::size_t depth = levels - 1;
    if (open[depth].empty() || !(open[depth].back().bound < cutoff)) {
      --levels;
      continue;
    }
    const Choice choice = open[depth].back();
    open[depth].pop_back();
    now[at(variables[depth])] = choice.live;
    if (levels == variables.size()) {
      cutoff = best = choice.bound;
      live = now;
      continue;
    }
    choices(variables[levels], choice.bound, now, open[levels]);
    tried += static_cast<std::int64_t>(open[levels].size());
    if (meter.stop_after(8 * open[levels].size())) return Elimination::Outcome::kStopped;
    if (tried > last) return Elimination::Outcome::kTooLarge;
    ++levels;
  }
  return best < kInfinity ? Elimination::Outcome::kSolved : Elimination::Outcome::kNoAnswer;
}

}  // namespace shardprop::graph
