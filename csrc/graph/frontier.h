// Points of a price and amounts of resources of which none beats another in everything.
#pragma once

#include <cstdint>
#include <vector>

namespace shardprop::graph {

// Points in parallel arrays; `origin` says how each came about, in whatever sense its maker likes.
class Frontier {
 public:
  // `budgets`: points that need more of some resource are left out.
  explicit Frontier(std::vector<double> budgets) : budgets_(std::move(budgets)) {}

  void clear();
  // Adds a point if it is within budget; `add_amounts` is added to `amounts`.
  void add(double price, const double* amounts, const double* add_amounts, std::int64_t origin);
  // Leaves only points that no other is at least as good as, by price ascending. Of equal ones
  // the first added stays.
  void prune();

  [[nodiscard]] std::size_t size() const { return prices_.size(); }
  [[nodiscard]] std::size_t resources() const { return budgets_.size(); }
  [[nodiscard]] double price(std::size_t i) const { return prices_[i]; }
  [[nodiscard]] const double* amounts(std::size_t i) const {
    return amounts_.data() + i * resources();
  }
  [[nodiscard]] std::int64_t origin(std::size_t i) const { return origins_[i]; }

 private:
  std::vector<double> budgets_, prices_, amounts_;
  std::vector<std::int64_t> origins_;
};

}  // namespace shardprop::graph
