#include "graph/frontier.h"

#include <algorithm>
#include <numeric>

namespace shardprop::graph {

void Frontier::clear() {
  prices_.clear();
  amounts_.clear();
  origins_.clear();
}

void Frontier::add(double price, const double* amounts, const double* add_amounts,
                   std::int64_t origin) {
  const std::size_t begin = amounts_.size();
  for (std::size_t r = 0; r < resources(); ++r) {
    const double amount = amounts[r] + add_amounts[r];
    if (amount > budgets_[r]) {
      amounts_.resize(begin);
      return;
    }
    amounts_.push_back(amount);
  }
  prices_.push_back(price);
  origins_.push_back(origin);
}

void Frontier::prune() {
  if (size() < 2) return;
  std::vector<std::size_t> order(size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto before = [this](std::size_t i, std::size_t j) {
    if (prices_[i] != prices_[j]) return prices_[i] < prices_[j];
    const double *a = amounts(i), *b = amounts(j);
    for (std::size_t r = 0; r < resources(); ++r) {
      if (a[r] != b[r]) return a[r] < b[r];
    }
    return i < j;
  };
  std::sort(order.begin(), order.end(), before);
  std::vector<std::size_t> kept;
  const auto beaten_by = [this](std::size_t kept_point, std::size_t i) {
    const double *a = amounts(kept_point), *b = amounts(i);
    return std::equal(a, a + resources(), b, [](double x, double y) { return x <= y; });
  };
  for (const std::size_t i : order) {
    // With one resource the last one kept has the least amount of all so far.
    const bool beaten =
        resources() == 1
            ? !kept.empty() && beaten_by(kept.back(), i)
            : std::any_of(kept.begin(), kept.end(), [&](std::size_t k) { return beaten_by(k, i); });
    if (!beaten) kept.push_back(i);
  }
  std::vector<double> prices, kept_amounts;
  std::vector<std::int64_t> origins;
  for (const std::size_t i : kept) {
    prices.push_back(prices_[i]);
    origins.push_back(origins_[i]);
    kept_amounts.insert(kept_amounts.end(), amounts(i), amounts(i) + resources());
  }
  prices_ = std::move(prices);
  amounts_ = std::move(kept_amounts);
  origins_ = std::move(origins);
}

}  // namespace shardprop::graph
