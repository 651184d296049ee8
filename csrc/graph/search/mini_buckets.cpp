#include "graph/search/mini_buckets.h"

#include <algorithm>
#include <iterator>

#include "graph/index.h"

namespace shardprop::graph {
namespace {

constexpr double kMostInAll = 1 << 24;  // 128 MB
constexpr double kMostCounted = 1e30;   // 100 variables of two labels

std::vector<int> united(const std::vector<int>& a, const std::vector<int>& b, int without) {
  std::vector<int> both;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  both.erase(std::remove(both.begin(), both.end(), without), both.end());
  return both;
}

// Leaves the least price of each label the same in all parts, and every sum over them what it is.
void match(std::vector<std::vector<double>>& parts, std::size_t labels) {
  if (parts.size() < 2) return;
  std::vector<std::vector<double>> least(parts.size(), std::vector<double>(labels, kInfinity));
  std::vector<double> mean(labels, 0.0);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    for (std::size_t i = 0; i < parts[k].size(); ++i) {
      least[k][i % labels] = std::min(least[k][i % labels], parts[k][i]);
    }
    for (std::size_t l = 0; l < labels; ++l) {
      mean[l] += least[k][l] / static_cast<double>(parts.size());
    }
  }
  for (std::size_t k = 0; k < parts.size(); ++k) {
    for (std::size_t i = 0; i < parts[k].size(); ++i) {
      const double wanted = mean[i % labels];
      parts[k][i] = wanted == kInfinity ? kInfinity : parts[k][i] + (wanted - least[k][i % labels]);
    }
  }
}

}  // namespace

EliminationOrder order_for_buckets(const Model& model, const std::vector<double>& prices) {
  EliminationOrder order = elimination_order(model, prices, kMostCounted);
  std::vector<bool> has_step(order.live.size(), false);
  for (const EliminationStep& step : order.steps) has_step[at(step.variable)] = true;
  for (int v = 0; v < model.variables(); ++v) {
    if (!has_step[at(v)] && order.live[at(v)].size() > 1) order.steps.push_back({v, {}});
  }
  return order;
}

MiniBuckets::MiniBuckets(Slacks slacks, const EliminationOrder& order, double most_entries,
                         Meter& meter)
    : order_(&order),
      position_(order.live.size(), 0),
      own_(std::move(slacks.own)),
      buckets_(order.live.size()),
      constant_(slacks.constant) {
  for (std::size_t s = 0; s < order.steps.size(); ++s) position_[at(order.steps[s].variable)] = s;
  for (Slacks::Pair& pair : slacks.pairs) put({pair.u, pair.v}, std::move(pair.prices));
  for (const EliminationStep& step : order.steps) {
    const int v = step.variable;
    const std::vector<Part> parts = parts_of(v, most_entries);
    double entries = 0;
    for (const Part& part : parts) entries += part.entries;
    if (entries_ + entries > kMostInAll) return;
    std::vector<std::vector<double>> joint;
    for (const Part& part : parts) joint.push_back(joined(v, part, joint.empty(), meter));
    // What follows looks at each entry three times.
    if (meter.stop_after(3 * static_cast<std::size_t>(entries))) return;
    match(joint, order.live[at(v)].size());
    for (std::size_t k = 0; k < parts.size(); ++k) send(v, parts[k], joint[k]);
  }
  is_made_ = true;
}

// The largest tables first, each where the joint table grows least.
std::vector<MiniBuckets::Part> MiniBuckets::parts_of(int v, double most_entries) const {
  std::vector<std::size_t> tables = buckets_[at(v)].tables;
  std::stable_sort(tables.begin(), tables.end(), [this](std::size_t a, std::size_t b) {
    return tables_[a].prices.size() > tables_[b].prices.size();
  });
  const auto labels = static_cast<double>(order_->live[at(v)].size());
  std::vector<Part> parts;
  if (tables.empty()) parts.push_back({{}, {}, labels});
  for (const std::size_t table : tables) {
    const std::vector<int>& scope = tables_[table].shape.scope;
    Part* to = nullptr;
    Part grown{};
    for (Part& part : parts) {
      std::vector<int> both = united(part.scope, scope, v);
      double entries = labels;
      for (const int w : both) entries *= static_cast<double>(order_->live[at(w)].size());
      if (entries > most_entries && entries > part.entries) continue;
      if (to != nullptr && entries / part.entries >= grown.entries / to->entries) continue;
      to = &part;
      grown = {std::move(both), {}, entries};
    }
    if (to == nullptr) {
      const auto entries = static_cast<double>(tables_[table].prices.size());
      parts.push_back({united(scope, {}, v), {table}, entries});
    } else {
      to->scope = std::move(grown.scope);
      to->entries = grown.entries;
      to->tables.push_back(table);
    }
  }
  return parts;
}

// [scope][labels of v]; incomplete once the meter has stopped.
std::vector<double> MiniBuckets::joined(int v, const Part& part, bool with_own,
                                        Meter& meter) const {
  std::vector<const Shape*> shapes;
  std::vector<std::size_t> strides;
  for (const std::size_t table : part.tables) {
    shapes.push_back(&tables_[table].shape);
    strides.push_back(tables_[table].shape.stride(v));
  }
  const std::size_t labels = order_->live[at(v)].size();
  const std::size_t rows = Shape(part.scope, *order_).size;
  std::vector<double> joint;
  joint.reserve(rows * labels);
  Odometer odometer(part.scope, *order_, shapes);
  for (std::size_t row = 0; row < rows; ++row, odometer.next()) {
    for (std::size_t l = 0; l < labels; ++l) {
      double sum = with_own ? own_[at(v)][l] : 0;
      for (std::size_t t = 0; t < part.tables.size(); ++t) {
        sum += tables_[part.tables[t]].prices[odometer.offset(t) + strides[t] * l];
      }
      joint.push_back(sum);
    }
    if (meter.stop_after(labels * (part.tables.size() + 1))) break;
  }
  return joint;
}

void MiniBuckets::send(int v, const Part& part, const std::vector<double>& joint) {
  const std::size_t labels = order_->live[at(v)].size();
  std::vector<double> prices;
  prices.reserve(joint.size() / labels);
  for (std::size_t first = 0; first < joint.size(); first += labels) {
    const double* row = joint.data() + first;
    prices.push_back(*std::min_element(row, row + labels));
  }
  Bucket& bucket = buckets_[at(v)];
  if (part.scope.empty()) {
    constant_ += prices[0];
    bucket.constant += prices[0];
    return;
  }
  bucket.messages.push_back(tables_.size());
  put(part.scope, std::move(prices));
}

void MiniBuckets::put(std::vector<int> scope, std::vector<double> prices) {
  const int first = *std::min_element(scope.begin(), scope.end(), [this](int a, int b) {
    return position_[at(a)] < position_[at(b)];
  });
  buckets_[at(first)].tables.push_back(tables_.size());
  entries_ += static_cast<double>(prices.size());
  tables_.push_back({Shape(std::move(scope), *order_), std::move(prices)});
}

}  // namespace shardprop::graph
