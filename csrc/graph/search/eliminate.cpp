// Elimination without resource rows: one price per entry.
#include "graph/index.h"
#include "graph/search/factors.h"

namespace shardprop::graph {
namespace {

struct Factor {
  Shape shape;
  std::vector<double> prices;
};

// The table that remains of a variable, and the live index it takes at each entry.
struct Message {
  Factor factor;
  std::vector<std::int32_t> best;
};

// Incomplete once the meter has stopped.
Message minimise_out(int v, const std::vector<int>& scope, const std::vector<double>& unary,
                     const std::vector<const Factor*>& factors, const EliminationOrder& order,
                     Meter& meter) {
  Message out;
  out.factor.shape = Shape(scope, order);
  out.factor.prices.reserve(out.factor.shape.size);
  out.best.reserve(out.factor.shape.size);
  std::vector<const Shape*> shapes;
  std::vector<std::size_t> own;
  for (const Factor* factor : factors) {
    shapes.push_back(&factor->shape);
    own.push_back(factor->shape.stride(v));
  }
  Odometer odometer(scope, order, shapes);
  for (std::size_t entry = 0; entry < out.factor.shape.size; ++entry, odometer.next()) {
    double least = kInfinity;
    std::int32_t best = 0;
    for (std::size_t i = 0; i < unary.size(); ++i) {
      double sum = unary[i];
      for (std::size_t f = 0; f < factors.size(); ++f) {
        sum += factors[f]->prices[odometer.offset(f) + own[f] * i];
      }
      if (sum < least) least = sum, best = static_cast<std::int32_t>(i);
    }
    out.factor.prices.push_back(least);
    out.best.push_back(best);
    if (meter.stop_after(unary.size() * (factors.size() + 1))) break;
  }
  return out;
}

}  // namespace

Elimination eliminate(const Model& model, const EliminationOrder& order,
                      const Interrupt& interrupt) {
  const auto n = at(model.variables());
  StartingTables start = starting_tables(model, order);
  std::vector<Factor> factors;
  std::vector<std::vector<std::size_t>> touching(n);  // factors by variable, used ones included
  const auto add = [&](Factor factor) {
    for (const int v : factor.shape.scope) touching[at(v)].push_back(factors.size());
    factors.push_back(std::move(factor));
  };
  for (PairTable& pair : start.pairs) add({std::move(pair.shape), std::move(pair.prices)});
  double total = start.constant;
  std::vector<std::vector<std::int32_t>> best;
  std::vector<bool> used(factors.size() + order.steps.size(), false);
  Meter meter(interrupt);
  for (const auto& [v, scope] : order.steps) {
    std::vector<const Factor*> incident;
    std::vector<std::size_t> spent;
    for (const std::size_t f : touching[at(v)]) {
      if (used[f]) continue;
      incident.push_back(&factors[f]);
      spent.push_back(f);
    }
    Message message = minimise_out(v, scope, start.unary[at(v)], incident, order, meter);
    if (meter.stopped()) return {Elimination::Outcome::kStopped, {}};
    for (const std::size_t f : spent) {
      used[f] = true;
      factors[f].prices = {};
    }
    best.push_back(std::move(message.best));
    if (scope.empty()) total += message.factor.prices[0];
    add(std::move(message.factor));
  }
  if (!(total < kInfinity)) return {Elimination::Outcome::kNoAnswer, {}};
  std::vector<std::size_t> index(n, 0);
  for (std::size_t s = order.steps.size(); s-- > 0;) {
    const auto& [v, scope] = order.steps[s];
    index[at(v)] = at(best[s][Shape(scope, order).entry(index)]);
  }
  Elimination out{Elimination::Outcome::kSolved, std::vector<int>(n)};
  for (std::size_t v = 0; v < n; ++v) out.chosen[v] = order.live[v][index[v]];
  return out;
}

}  // namespace shardprop::graph
