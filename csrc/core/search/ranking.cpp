#include "search/ranking.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace shardprop {
namespace {

std::uint64_t power(std::uint64_t base, int exponent) {
  std::uint64_t product = 1;
  for (int i = 0; i < exponent; ++i) {
    if (base != 0 && product > kMaxRanked) return product;
    product *= base;
  }
  return product;
}

// Counts what falls, by where and why.
class Refusals {
 public:
  explicit Refusals(const Problem& problem)
      : mesh_dims_(problem.mesh.ndim), rows_(problem.table.rows()) {}

  void add(const Dropped& dropped) {
    const auto& [rows, mesh_dim, row, refusal] = dropped;
    const auto [place, is_new] =
        known_.try_emplace({mesh_dim, row, refusal.position, refusal.reason}, Refused{});
    Refused& known = place->second;
    if (is_new) {
      known = {mesh_dim, row, refusal, 0, {}};
      std::copy_n(rows.begin(), mesh_dim, known.before.begin());
    }
    known.dropped += power(static_cast<std::uint64_t>(rows_), mesh_dims_ - mesh_dim - 1);
  }

  [[nodiscard]] std::vector<Refused> all() const {
    std::vector<Refused> refused;
    for (const auto& [key, value] : known_) refused.push_back(value);
    return refused;
  }

 private:
  using Key = std::tuple<int, int, int, Filter::Reason>;
  int mesh_dims_, rows_;
  std::map<Key, Refused> known_;
};

// The cheapest of the strategies that come in torch's order, and the one that torch takes.
class Best {
 public:
  Best(const Problem& problem, std::size_t limit) : problem_(problem), limit_(limit) {}

  void add(Strategy strategy) {
    ++seen_;
    if (problem_.prefers_no_redistribute && strategy.cost == 0.0 &&
        redistributes_nothing(problem_, strategy.rows)) {
      unmoved_ = seen_;
    }
    if (seen_ == 1 || strategy.cost < least_) {
      least_ = strategy.cost;
      ties_ = 0;
    }
    ties_ += strategy.cost == least_;
    // One that redistributes nothing may yet turn out to be the last of those.
    if (unmoved_ == seen_) chosen_ = {seen_, strategy};
    kept_.push_back({seen_, std::move(strategy)});
    if (kept_.size() > 2 * limit_ + 64) shorten();
  }

  [[nodiscard]] std::uint64_t seen() const { return seen_; }
  [[nodiscard]] std::uint64_t ties() const { return ties_; }

  [[nodiscard]] std::vector<Strategy> in_order() {
    shorten();
    std::vector<Strategy> best;
    if (unmoved_ != 0) best.push_back(std::move(chosen_.strategy));
    for (Numbered& each : kept_) {
      if (each.number != unmoved_ && best.size() < limit_) {
        best.push_back(std::move(each.strategy));
      }
    }
    return best;
  }

 private:
  struct Numbered {
    std::uint64_t number;  // in torch's order
    Strategy strategy;
  };

  void shorten() {
    std::sort(kept_.begin(), kept_.end(), [](const Numbered& a, const Numbered& b) {
      return std::tie(a.strategy.cost, a.number) < std::tie(b.strategy.cost, b.number);
    });
    if (kept_.size() > limit_) kept_.resize(limit_);
  }

  const Problem& problem_;
  std::size_t limit_;
  std::vector<Numbered> kept_;
  Numbered chosen_{};
  double least_ = 0.0;
  std::uint64_t seen_ = 0, ties_ = 0;
  std::uint64_t unmoved_ =
      0;  // the number of the last that redistributes nothing; 0: there is none
};

}  // namespace

Ranking rank(const Problem& problem, std::size_t limit) {
  Ranking ranking;
  ranking.considered = power(static_cast<std::uint64_t>(problem.table.rows()), problem.mesh.ndim);
  if (ranking.considered > kMaxRanked) {
    ranking.verdict = Verdict::kTooLarge;
    return ranking;
  }
  Refusals refusals(problem);
  Best best(problem, limit);
  HistoryPricer pricer(problem);
  bool unreachable = false;
  std::uint64_t complete = 0;
  const auto price = [&](const Rows& rows) {
    if (problem.accepts && !problem.accepts(rows)) return Visit::kRejected;
    auto strategy = price_strategy(problem, pricer, rows);
    unreachable = !strategy;
    if (unreachable) return Visit::kStop;
    best.add(*std::move(strategy));
    return Visit::kTaken;
  };
  const auto count = [&](const Dropped& dropped) {
    refusals.add(dropped);
    complete += power(static_cast<std::uint64_t>(problem.table.rows()),
                      problem.mesh.ndim - dropped.mesh_dim - 1);
  };
  ranking.verdict = for_each_valid(problem, all_rows(problem), price, count);
  if (unreachable) ranking.verdict = Verdict::kUnreachable;
  ranking.valid = best.seen();
  ranking.ties = best.ties();
  ranking.turned_down = unreachable ? 0 : ranking.considered - complete - best.seen();
  ranking.refused = refusals.all();
  if (limit > 0) ranking.best = best.in_order();
  return ranking;
}

}  // namespace shardprop
