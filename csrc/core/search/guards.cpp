#include "search/guards.h"

#include <algorithm>
#include <cmath>

#include "torch_plan/transition.h"

namespace shardprop {
namespace {

// The question for other sizes: the symbolic ones of each operand replaced by one of `product`.
Problem resized(const Problem& problem, std::int64_t product) {
  Problem other = problem;
  for (Operand& operand : other.operands) {
    TensorInfo& info = operand.info;
    if (info.symbolic == 0) continue;
    std::vector<std::int64_t> shape{product};
    for (int d = 0; d < static_cast<int>(info.shape.size()); ++d) {
      if (!info.is_symbolic(d)) shape.push_back(info.shape[d]);
    }
    info.shape = std::move(shape);
  }
  return other;
}

class PriceGuard {
 public:
  PriceGuard(const Problem& problem, const Strategy& chosen) : problem_(problem), chosen_(chosen) {
    for (const Operand& operand : problem.operands) {
      growths_ = std::max(growths_, operand.growth + 1);
    }
  }

  void run(std::span<const PricedRows> all) {
    const Problem sizeless = resized(problem_, 0);
    HistoryPricer now(problem_), idle(sizeless);
    ours_ = line(chosen_.rows, now, idle);
    std::vector<Alternative> alternatives;
    for (const PricedRows& other : all) {
      if (std::isinf(other.cost) || is_near(other.cost, chosen_.cost)) continue;
      Alternative alternative{other.rows, line(other.rows, now, idle)};
      if (!is_never_cheaper(alternative.line, ours_, kNear * chosen_.cost)) {
        alternatives.push_back(std::move(alternative));
      }
    }
    if (alternatives.empty()) return;
    if (growths_ == 1) {
      keep_product(alternatives);
    } else {
      keep_cheapest(undominated(alternatives));
    }
  }

 private:
  LinearPrice line(const Rows& rows, HistoryPricer& now, HistoryPricer& idle) const {
    const Strategy cost = *price_strategy(problem_, now, rows);
    const Strategy latency = *price_strategy(problem_, idle, rows);
    LinearPrice line{latency.cost, std::vector<double>(growths_, 0.0)};
    for (std::size_t i = 0; i < cost.operand_costs.size(); ++i) {
      line.growing[problem_.operands[i].growth] += cost.operand_costs[i] - latency.operand_costs[i];
    }
    return line;
  }

  void keep_product(const std::vector<Alternative>& alternatives) const {
    const Alternative *above = nullptr, *below = nullptr;
    double above_at = kImpossible, below_at = 0.0;
    for (const Alternative& alternative : alternatives) {
      // Where its line crosses ours, as a factor on the product of now.
      const double at =
          (alternative.line.fixed - ours_.fixed) / (ours_.growing[0] - alternative.line.growing[0]);
      if (at > 1.0 && at < above_at) {
        above_at = at;
        above = &alternative;
      } else if (at < 1.0 && at > below_at) {
        below_at = at;
        below = &alternative;
      }
    }
    int owner = 0;
    while (problem_.operands[owner].info.symbolic == 0) ++owner;
    const double now = product_of(problem_.operands[owner].info);
    std::optional<std::int64_t> least, most;
    if (below != nullptr && below_at * now >= 1.0) least = last_kept(*below, below_at * now, -1);
    if (above != nullptr && above_at < room_to_grow()) most = last_kept(*above, above_at * now, 1);
    if (least || most) problem_.sizes->keep_product(owner, least, most);
  }

  static double product_of(const TensorInfo& info) {
    double product = 1.0;
    for (int d = 0; d < static_cast<int>(info.shape.size()); ++d) {
      if (info.is_symbolic(d)) product *= static_cast<double>(info.shape[d]);
    }
    return product;
  }

  // How far the sizes can grow before the core declines the tensor (see Decoder::spec).
  double room_to_grow() const {
    double bytes = 1.0;
    for (const Operand& operand : problem_.operands) {
      if (operand.info.symbolic != 0) bytes = std::max(bytes, operand.info.bytes());
    }
    return 0x1p53 / bytes;
  }

  // The last product in the direction of `step` at which ours is still the cheapest, or level but
  // for rounding: torch's guard may say either then, and we must not recompile where it would not.
  // The crossing of the lines tells it to within rounding.
  std::int64_t last_kept(const Alternative& alternative, double crossing, std::int64_t step) const {
    constexpr int kMaxSteps = 64;
    auto product = static_cast<std::int64_t>(crossing);
    for (int i = 0; i < kMaxSteps && !is_kept(alternative, product); ++i) product -= step;
    for (int i = 0; i < kMaxSteps && is_kept(alternative, product + step); ++i) product += step;
    return product;
  }

  bool is_kept(const Alternative& alternative, std::int64_t product) const {
    const Problem then = resized(problem_, product);
    HistoryPricer pricer(then);
    const double ours = price_strategy(then, pricer, chosen_.rows)->cost;
    const double theirs = price_strategy(then, pricer, alternative.rows)->cost;
    return is_near(ours, theirs);
  }

  bool comes_before(const Alternative& alternative) const {
    return std::lexicographical_compare(
        alternative.rows.begin(), alternative.rows.begin() + problem_.mesh.ndim,
        chosen_.rows.begin(), chosen_.rows.begin() + problem_.mesh.ndim);
  }

  void keep_cheapest(const std::vector<Alternative>& alternatives) const {
    HistoryPricer pricer(problem_);
    std::vector<Strategy> before, after;
    for (const Alternative& alternative : alternatives) {
      (comes_before(alternative) ? before : after)
          .push_back(*price_strategy(problem_, pricer, alternative.rows));
    }
    problem_.sizes->keep_cheapest(chosen_, before, after);
  }

  const Problem& problem_;
  const Strategy& chosen_;
  int growths_ = 1;
  LinearPrice ours_;
};

}  // namespace

void guard_price(const Problem& problem, std::span<const PricedRows> all, const Strategy& chosen) {
  PriceGuard(problem, chosen).run(all);
}

}  // namespace shardprop
