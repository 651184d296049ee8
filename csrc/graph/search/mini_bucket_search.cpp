// Depth first along an elimination order in reverse. The tables of a variable's bucket say what its
// label costs, and what those eliminated before it then add at least; the messages of the bucket
// have bounded both so far.
#include <algorithm>

#include "graph/index.h"
#include "graph/search/mini_buckets.h"

namespace shardprop::graph {

// The labels of v, the dearest first. `live`: the choices of the variables after it in the order.
void MiniBuckets::choices(int v, double bound, const std::vector<std::size_t>& live,
                          std::vector<Choice>& out) const {
  // Where an assignment lies in a table, as if that of v were 0.
  const auto entry_of = [&](const Shape& shape) {
    std::size_t entry = 0;
    for (std::size_t i = 0; i < shape.scope.size(); ++i) {
      if (shape.scope[i] != v) entry += shape.strides[i] * live[at(shape.scope[i])];
    }
    return entry;
  };
  const Bucket& bucket = buckets_[at(v)];
  bound -= bucket.constant;
  for (const std::size_t message : bucket.messages) {
    bound -= tables_[message].prices[entry_of(tables_[message].shape)];
  }
  out.clear();
  for (const double own : own_[at(v)]) out.push_back({bound + own, out.size()});
  for (const std::size_t table : bucket.tables) {
    const Shape& shape = tables_[table].shape;
    const double* prices = tables_[table].prices.data() + entry_of(shape);
    const std::size_t stride = shape.stride(v);
    for (Choice& choice : out) choice.bound += prices[stride * choice.live];
  }
  std::sort(out.begin(), out.end(), [](const Choice& a, const Choice& b) {
    return a.bound != b.bound ? a.bound > b.bound : a.live > b.live;
  });
}

Elimination MiniBuckets::search(double cutoff, std::int64_t most_tried, Meter& meter,
                                std::int64_t& tried) const {
  Elimination out{Elimination::Outcome::kNoAnswer, {}};
  const auto& steps = order_->steps;
  const auto variable = [&steps](std::size_t depth) {
    return steps[steps.size() - 1 - depth].variable;
  };
  std::vector<std::size_t> live(order_->live.size(), 0);
  std::vector<std::vector<Choice>> open(steps.size());  // by depth: what is left to try
  const std::int64_t last = tried + most_tried;
  std::size_t depth = 0;
  if (!steps.empty() && constant_ < cutoff) choices(variable(0), constant_, live, open[0]);
  while (depth < open.size()) {
    if (open[depth].empty() || !(open[depth].back().bound < cutoff)) {
      if (depth-- == 0) break;
      continue;
    }
    const Choice choice = open[depth].back();
    open[depth].pop_back();
    live[at(variable(depth))] = choice.live;
    if (depth + 1 < open.size()) {
      ++depth;
      choices(variable(depth), choice.bound, live, open[depth]);
      tried += static_cast<std::int64_t>(open[depth].size());
      const bool stopped = meter.stop_after(8 * open[depth].size());
      if (!stopped && tried <= last) continue;
      out.outcome = stopped ? Elimination::Outcome::kStopped : Elimination::Outcome::kTooLarge;
      break;
    }
    cutoff = choice.bound;
    out.outcome = Elimination::Outcome::kSolved;
    out.chosen.resize(live.size());
    for (std::size_t v = 0; v < live.size(); ++v) out.chosen[v] = order_->live[v][live[v]];
  }
  return out;
}

}  // namespace shardprop::graph
