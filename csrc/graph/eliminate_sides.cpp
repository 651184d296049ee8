// Elimination with resource rows: a frontier of price and amounts per entry.
#include <algorithm>

#include "graph/factors.h"
#include "graph/frontier.h"

namespace shardprop::graph {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Rounding of sums of amounts must not exclude an answer that just fits.
constexpr double kSlack = 1e-12;

// The table of an eliminated variable: per entry a run of points. Point p takes live label
// label[p], and point children[p * sources.size() + k] of the k-th table it was made from.
struct PointTable {
  Shape shape;
  std::vector<std::size_t> first;
  std::vector<double> prices, amounts;
  std::vector<std::int32_t> label;
  std::vector<std::size_t> children;
  std::vector<std::size_t> sources;
};

class SideElimination {
 public:
  SideElimination(const Model& model, const EliminationOrder& order, std::size_t most_points)
      : order_(order), most_points_(most_points), start_(starting_tables(model, order)) {
    const auto n = at(model.variables());
    touching_pairs_.resize(n);
    touching_.resize(n);
    for (std::size_t p = 0; p < start_.pairs.size(); ++p) {
      for (const int v : start_.pairs[p].shape.scope) touching_pairs_[at(v)].push_back(p);
    }
    pair_used_.assign(start_.pairs.size(), false);
    fill_amounts(model);
  }

  Elimination run(const Interrupt& interrupt) {
    for (const double budget : budgets_) {
      if (budget < 0) return {Elimination::Outcome::kNoAnswer, {}};
    }
    for (const auto& [v, scope] : order_.steps) {
      if (interrupt()) return {Elimination::Outcome::kStopped, {}};
      if (!step(v, scope, interrupt)) {
        return {stopped_ ? Elimination::Outcome::kStopped : Elimination::Outcome::kTooLarge, {}};
      }
    }
    return combine_roots();
  }

 private:
  // Amounts by variable and live label, less the least of each variable, which the budgets lose.
  void fill_amounts(const Model& model) {
    const std::size_t sides = model.sides.size();
    zero_.assign(sides, 0.0);
    amounts_.resize(at(model.variables()));
    for (std::size_t v = 0; v < amounts_.size(); ++v) {
      amounts_[v].assign(order_.live[v].size() * sides, 0.0);
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
      budgets_.push_back(budget);
    }
  }

  // False: too many points, or interrupted.
  bool step(int v, const std::vector<int>& scope, const Interrupt& interrupt) {
    std::vector<const Shape*> shapes;
    std::vector<const PairTable*> pairs;
    for (const std::size_t p : touching_pairs_[at(v)]) {
      if (pair_used_[p]) continue;
      pair_used_[p] = true;
      pairs.push_back(&start_.pairs[p]);
      shapes.push_back(&start_.pairs[p].shape);
    }
    PointTable table;
    table.shape = Shape(scope, order_);
    for (const std::size_t t : touching_[at(v)]) {
      if (used_[t]) continue;
      used_[t] = true;
      table.sources.push_back(t);
      shapes.push_back(&tables_[t].shape);
    }
    Odometer odometer(scope, order_, shapes);
    table.first.push_back(0);
    for (std::size_t entry = 0; entry < table.shape.size; ++entry, odometer.next()) {
      if ((entry & 255) == 255 && interrupt()) {
        stopped_ = true;
        return false;
      }
      fill_entry(v, pairs, odometer, table);
      table.first.push_back(table.prices.size());
      if (too_many_ || points_ + table.prices.size() > most_points_) return false;
    }
    points_ += table.prices.size();
    for (const int w : scope) touching_[at(w)].push_back(tables_.size());
    if (scope.empty()) roots_.push_back(tables_.size());
    tables_.push_back(std::move(table));
    used_.push_back(false);
    return true;
  }

  // Each label's own point, joined with those of the tables below it, one after the other. What a
  // point was made from is kept as a chain of (point before, point of the table).
  void fill_entry(int v, const std::vector<const PairTable*>& pairs, const Odometer& odometer,
                  PointTable& table) {
    const auto& unary = start_.unary[at(v)];
    const std::size_t sides = budgets_.size();
    std::vector<std::vector<std::pair<std::size_t, std::size_t>>> chains(table.sources.size());
    Frontier now(budgets_), next(budgets_);
    for (std::size_t i = 0; i < unary.size(); ++i) {
      double price = unary[i];
      for (std::size_t p = 0; p < pairs.size(); ++p) {
        price += pairs[p]->prices[odometer.offset(p) + pairs[p]->shape.stride(v) * i];
      }
      if (price == kInfinity) continue;
      now.add(price, amounts_[at(v)].data() + i * sides, zero_.data(),
              static_cast<std::int64_t>(i));
    }
    if (table.sources.empty()) now.prune();
    std::vector<std::int32_t> labels;
    for (std::size_t p = 0; p < now.size(); ++p) {
      labels.push_back(static_cast<std::int32_t>(now.origin(p)));
    }
    for (std::size_t k = 0; k < table.sources.size(); ++k) {
      const PointTable& source = tables_[table.sources[k]];
      const std::size_t base = odometer.offset(pairs.size() + k), stride = source.shape.stride(v);
      next.clear();
      auto& chain = chains[k];
      for (std::size_t p = 0; p < now.size(); ++p) {
        const std::size_t entry = base + stride * at(labels[p]);
        // Before pruning the points multiply: it is here that memory could run away.
        if (chain.size() > most_points_) {
          too_many_ = true;
          return;
        }
        for (std::size_t q = source.first[entry]; q < source.first[entry + 1]; ++q) {
          next.add(now.price(p) + source.prices[q], now.amounts(p),
                   source.amounts.data() + q * sides, static_cast<std::int64_t>(chain.size()));
          chain.emplace_back(p, q);
        }
      }
      // Points of different labels may only be weighed once nothing else depends on the label.
      if (k + 1 == table.sources.size()) next.prune();
      std::vector<std::int32_t> next_labels;
      std::vector<std::pair<std::size_t, std::size_t>> kept;
      for (std::size_t p = 0; p < next.size(); ++p) {
        kept.push_back(chain[static_cast<std::size_t>(next.origin(p))]);
        next_labels.push_back(labels[kept.back().first]);
      }
      chain = std::move(kept);
      labels = std::move(next_labels);
      std::swap(now, next);
    }
    store(now, labels, chains, table);
  }

  void store(const Frontier& points, const std::vector<std::int32_t>& labels,
             const std::vector<std::vector<std::pair<std::size_t, std::size_t>>>& chains,
             PointTable& table) const {
    for (std::size_t p = 0; p < points.size(); ++p) {
      table.prices.push_back(points.price(p));
      table.amounts.insert(table.amounts.end(), points.amounts(p),
                           points.amounts(p) + budgets_.size());
      table.label.push_back(labels[p]);
      const std::size_t begin = table.children.size();
      table.children.resize(begin + chains.size());
      std::size_t link = p;
      for (std::size_t k = chains.size(); k-- > 0;) {
        table.children[begin + k] = chains[k][link].second;
        link = chains[k][link].first;
      }
    }
  }

  // Parts of the graph that share no variable still share the budgets.
  Elimination combine_roots() {
    Frontier now(budgets_), next(budgets_);
    now.add(start_.constant, zero_.data(), zero_.data(), 0);
    std::vector<std::vector<std::pair<std::size_t, std::size_t>>> chains;
    for (const std::size_t root : roots_) {
      const PointTable& table = tables_[root];
      next.clear();
      std::vector<std::pair<std::size_t, std::size_t>> chain, kept;
      if (now.size() * table.prices.size() > most_points_) {
        return {Elimination::Outcome::kTooLarge, {}};
      }
      for (std::size_t p = 0; p < now.size(); ++p) {
        for (std::size_t q = 0; q < table.prices.size(); ++q) {
          next.add(now.price(p) + table.prices[q], now.amounts(p),
                   table.amounts.data() + q * budgets_.size(),
                   static_cast<std::int64_t>(chain.size()));
          chain.emplace_back(p, q);
        }
      }
      next.prune();
      for (std::size_t p = 0; p < next.size(); ++p) {
        kept.push_back(chain[static_cast<std::size_t>(next.origin(p))]);
      }
      chains.push_back(std::move(kept));
      std::swap(now, next);
    }
    if (now.size() == 0 || now.price(0) == kInfinity) return {Elimination::Outcome::kNoAnswer, {}};
    Elimination out{Elimination::Outcome::kSolved, std::vector<int>(order_.live.size())};
    for (std::size_t v = 0; v < order_.live.size(); ++v) out.chosen[v] = order_.live[v][0];
    std::size_t link = 0;
    for (std::size_t k = chains.size(); k-- > 0;) {
      follow(roots_[k], chains[k][link].second, out.chosen);
      link = chains[k][link].first;
    }
    return out;
  }

  void follow(std::size_t root, std::size_t root_point, std::vector<int>& chosen) const {
    std::vector<std::pair<std::size_t, std::size_t>> open{{root, root_point}};
    while (!open.empty()) {
      const auto [t, p] = open.back();
      open.pop_back();
      const PointTable& table = tables_[t];
      const int v = order_.steps[t].variable;  // tables are made in the order of the steps
      chosen[at(v)] = order_.live[at(v)][at(table.label[p])];
      for (std::size_t k = 0; k < table.sources.size(); ++k) {
        open.emplace_back(table.sources[k], table.children[p * table.sources.size() + k]);
      }
    }
  }

  const EliminationOrder& order_;
  std::size_t most_points_, points_ = 0;
  StartingTables start_;
  std::vector<double> budgets_, zero_;
  std::vector<std::vector<double>> amounts_;
  std::vector<std::vector<std::size_t>> touching_pairs_, touching_;
  std::vector<bool> pair_used_, used_;
  std::vector<PointTable> tables_;
  std::vector<std::size_t> roots_;
  bool stopped_ = false, too_many_ = false;
};

}  // namespace

Elimination eliminate_with_sides(const Model& model, const EliminationOrder& order,
                                 std::size_t most_points, const Interrupt& interrupt) {
  return SideElimination(model, order, most_points).run(interrupt);
}

}  // namespace shardprop::graph
