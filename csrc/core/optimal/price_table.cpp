#include "optimal/price_table.h"

#include <algorithm>

namespace shardprop {
namespace {

// A plan meets about so many layouts on its way. Beyond that many per target, plans are made one by
// one.
constexpr std::size_t kLayoutsOfPlan = 64;

constexpr Price kUnknown = -1;

class Sources {
 public:
  Sources(const CostModel& model, const TensorInfo& info, std::span<const Layout> targets,
          double memory_limit, BoundCache* cache)
      : model_(model), info_(info), memory_limit_(memory_limit), cache_(cache) {
    for (const Layout& target : targets) {
      const Layout layout = PlanSpace::normalise(target, info, model);
      const auto known = std::find(targets_.begin(), targets_.end(), layout);
      target_of_.push_back(static_cast<std::size_t>(known - targets_.begin()));
      if (known == targets_.end()) targets_.push_back(layout);
    }
    for (const Layout& target : targets_) {
      // Strided shards are brought in on the way to such a target alone, and would make every
      // other search longer.
      if (!has_strided(target)) searched_.push_back(target);
    }
  }

  // From a normalised layout, per target as they were given.
  std::vector<Price> from(const Layout& source) {
    prices_.assign(targets_.size(), kUnknown);
    try {
      search(source);
    } catch (const OutsidePlanSpace&) {
      // Too much for one search; single plans may be less, or say what is wrong.
    }
    for (std::size_t t = 0; t < targets_.size(); ++t) {
      if (prices_[t] != kUnknown) continue;
      prices_[t] = exact_plan(model_, info_, source, targets_[t], memory_limit_, cache_).price;
    }
    std::vector<Price> prices;
    for (const std::size_t target : target_of_) prices.push_back(prices_[target]);
    return prices;
  }

 private:
  void search(const Layout& source) {
    const PlanSpace space(model_, info_, source, searched_);
    if (space.layouts() > kLayoutsOfPlan * searched_.size()) return;
    FlatMap target_at;
    std::size_t left = searched_.size();
    for (std::size_t t = 0; t < targets_.size(); ++t) {
      if (has_strided(targets_[t])) continue;
      target_at.insert(space.encode(targets_[t]), static_cast<std::uint32_t>(t));
    }
    PlanSearch search(space, space.encode(source), memory_limit_);
    while (left > 0) {
      const std::uint32_t at = search.settle();
      if (at == FlatMap::kNone) break;
      const std::uint32_t target = target_at.find(space.reached(search.label(at).state));
      if (target == FlatMap::kNone || prices_[target] != kUnknown) continue;
      prices_[target] = search.label(at).price;
      --left;
    }
    // No way leads to the rest.
    for (std::size_t t = 0; t < targets_.size(); ++t) {
      if (prices_[t] == kUnknown && !has_strided(targets_[t])) prices_[t] = kNoPrice;
    }
  }

  const CostModel& model_;
  const TensorInfo& info_;
  double memory_limit_;
  BoundCache* cache_;
  std::vector<Layout> targets_, searched_;  // normalised, each once
  std::vector<std::size_t> target_of_;      // by the targets as they were given
  std::vector<Price> prices_;               // from one source, per target
};

}  // namespace

std::vector<Price> price_table(const CostModel& model, const TensorInfo& info,
                               std::span<const Layout> sources, std::span<const Layout> targets,
                               double memory_limit, BoundCache* cache) {
  Sources prices(model, info, targets, memory_limit, cache);
  std::vector<Price> table(targets.size() * sources.size());
  std::vector<Layout> normalised;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    const Layout source = PlanSpace::normalise(sources[s], info, model);
    const auto known = std::find(normalised.begin(), normalised.end(), source);
    const auto twin = static_cast<std::size_t>(known - normalised.begin());
    normalised.push_back(source);
    if (twin < s) {
      for (std::size_t t = 0; t < targets.size(); ++t) {
        table[t * sources.size() + s] = table[t * sources.size() + twin];
      }
      continue;
    }
    const std::vector<Price> found = prices.from(source);
    for (std::size_t t = 0; t < targets.size(); ++t) table[t * sources.size() + s] = found[t];
  }
  return table;
}

}  // namespace shardprop
