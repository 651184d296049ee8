#include <algorithm>
#include <cmath>
#include <map>

#include "search/enumerate.h"
#include "search/linear_price.h"
#include "search/pricer.h"
#include "search/prices_by_bytes.h"
#include "search/region.h"
#include "search/shardable.h"
#include "torch_plan/transition.h"

namespace shardprop {
namespace {

// Prices that neither overflow nor vanish, so that lines and margins mean what they say.
bool has_ordinary_links(const Mesh& mesh) {
  for (int m = 0; m < mesh.ndim; ++m) {
    const double bandwidth = mesh.bandwidth[m], latency = mesh.latency[m];
    if (!(bandwidth >= 1e-9 && bandwidth <= 1e15)) return false;
    if (!(latency >= 0.0 && latency <= 1e15)) return false;
  }
  return true;
}

}  // namespace

// Looks at every strategy that could be valid for some sizes, and keeps what tells whether it wins.
class RegionFinder {
 public:
  RegionFinder(const Problem& problem, const Decision& decision)
      : problem_(problem), chosen_(decision.rows), prices_(problem) {}

  std::optional<Region> run() {
    if (problem_.operands.size() > kMaxRegionOperands || problem_.table.rows() > kMaxRegionRows) {
      return std::nullopt;
    }
    start();
    if (!look_at_alternatives() || broken_) return std::nullopt;
    front_ = undominated(alternatives_);
    for (const Alternative& misfit : misfits_) {
      // Where it would win, the region has ended for one of these.
      const bool covered =
          std::any_of(front_.begin(), front_.end(), [&](const Alternative& alternative) {
            return is_never_cheaper(misfit.line, alternative.line, 0.0);
          });
      if (!covered) keep_out(misfit.rows);
    }
    if (broken_) return std::nullopt;
    keep_lines();
    return std::move(region_);
  }

 private:
  using Formulas = std::vector<std::uint32_t>;  // per operand

  struct Offer {
    LinearPrice line;  // shares per byte of each operand
    bool stays;
    bool comes_first;  // in torch's order
  };

  // What the chosen strategy asks of the sizes and costs.
  void start() {
    region_.emplace();
    for (const Operand& operand : problem_.operands) {
      offsets_.push_back(region_->intervals_.size());
      region_->intervals_.resize(region_->intervals_.size() + operand.info.shape.size());
      region_->tensor_dims_.push_back(static_cast<int>(operand.info.shape.size()));
      region_->itemsizes_.push_back(operand.info.itemsize);
    }
    ours_ = offer(chosen_);
    for (std::size_t i = 0; i < problem_.operands.size(); ++i) {
      const int operand = static_cast<int>(i);
      formulas_.push_back(prices_.of(operand, chosen_).formula);
      if (is_exempt(operand, chosen_)) continue;
      broken_ |= !is_shardable(problem_, operand, chosen_, [&](int dim, std::int64_t pieces) {
        auto& least = interval(operand, dim).least;
        least = std::max(least, pieces);
        return size(operand, dim) >= pieces;
      });
    }
    impossible_ = std::isinf(ours_.line.fixed);
    // Rounding, at the most bytes that a region has.
    double most = ours_.line.fixed;
    for (const double share : ours_.line.growing) most += share * kMaxRegionBytes;
    rounding_ = 1e-12 * most;
  }

  Region::Interval& interval(int operand, int tensor_dim) {
    return region_->intervals_[offsets_[operand] + tensor_dim];
  }

  std::int64_t size(int operand, int tensor_dim) const {
    return problem_.operands[operand].info.shape[tensor_dim];
  }

  // torch does not ask whether this operand can be cut, or takes it as it is.
  bool is_exempt(int operand, const Rows& rows) const {
    return problem_.operands[operand].where == Operand::Where::kPinned ||
           (problem_.allow_uneven && keeps_operand(problem_, operand, rows));
  }

  Offer offer(const Rows& rows) {
    Offer offer{{0.0, std::vector<double>(problem_.operands.size())}, false, rows < chosen_};
    bool free = true;
    for (std::size_t i = 0; i < problem_.operands.size(); ++i) {
      const PriceByBytes& price = prices_.of(static_cast<int>(i), rows);
      offer.line.fixed += price.fixed;
      offer.line.growing[i] = price.per_byte;
      free &= price.fixed == 0.0;
    }
    offer.stays = free && problem_.prefers_no_redistribute && redistributes_nothing(problem_, rows);
    return offer;
  }

  // False: too many. (So few that `decide` will not give up for other sizes either.)
  bool look_at_alternatives() {
    Candidates candidates;
    double combinations = 1.0;
    for (int m = 0; m < problem_.mesh.ndim; ++m) {
      for (int row = 0; row < problem_.table.rows(); ++row) {
        // Only what redistributes nothing can win over what redistributes nothing.
        if (ours_.stays && !keeps_operands(problem_, m, row)) continue;
        candidates[m].push_back(static_cast<std::uint16_t>(row));
      }
      combinations *= static_cast<double>(candidates[m].size());
    }
    if (combinations > static_cast<double>(kMaxRegionStrategies)) return false;
    Problem sizeless = problem_;
    for (Operand& operand : sizeless.operands) operand.info.symbolic = ~std::uint32_t{0};
    (void)for_each_valid(sizeless, candidates, [this](const Rows& rows) {
      if (!(rows == chosen_)) look_at(rows);
      return broken_ ? Visit::kStop : Visit::kTaken;
    });
    return true;
  }

  void look_at(const Rows& rows) {
    Offer theirs = offer(rows);
    if (always_wins(theirs)) {
      keep_out(rows);
    } else if (!may_win(theirs, rows)) {
      return;
    } else if (!is_near(cost_now(theirs.line), cost_now(ours_.line))) {
      alternatives_.push_back({rows, std::move(theirs.line)});
    } else if (fits(rows)) {
      add_level(rows, theirs);
    } else {
      misfits_.push_back({rows, std::move(theirs.line)});
    }
  }

  // Whatever the bytes.
  bool always_wins(const Offer& theirs) const {
    if (ours_.stays) return theirs.stays && !theirs.comes_first;
    if (theirs.stays) return true;
    if (impossible_) return theirs.comes_first || !std::isinf(theirs.line.fixed);
    return false;
  }

  // For some bytes.
  bool may_win(const Offer& theirs, const Rows& rows) {
    if (ours_.stays || impossible_ || std::isinf(theirs.line.fixed)) return false;
    if (!theirs.comes_first && has_our_formulas(rows)) return false;
    // A share that is level is so but for rounding, which the latency outweighs.
    if (theirs.line.fixed <= ours_.line.fixed + rounding_) return true;
    for (std::size_t i = 0; i < ours_.line.growing.size(); ++i) {
      if (theirs.line.growing[i] < ours_.line.growing[i] * (1.0 - 1e-13)) return true;
    }
    return false;
  }

  bool has_our_formulas(const Rows& rows) {
    for (std::size_t i = 0; i < formulas_.size(); ++i) {
      if (prices_.of(static_cast<int>(i), rows).formula != formulas_[i]) return false;
    }
    return true;
  }

  double cost_now(const LinearPrice& line) const {
    double cost = line.fixed;
    for (std::size_t i = 0; i < line.growing.size(); ++i) {
      cost += line.growing[i] * problem_.operands[i].info.bytes();
    }
    return cost;
  }

  // Does it fit the sizes as they are?
  bool fits(const Rows& rows) const {
    for (int i = 0; i < static_cast<int>(problem_.operands.size()); ++i) {
      if (is_exempt(i, rows)) continue;
      const auto holds = [&](int dim, std::int64_t pieces) { return size(i, dim) >= pieces; };
      if (!is_shardable(problem_, i, rows, holds)) return false;
    }
    return true;
  }

  // One size must stay too small for a strategy that is too finely cut now. Of several, the one
  // that has most room to grow.
  void keep_out(const Rows& rows) {
    Region::Interval* kept = nullptr;
    std::int64_t most = 0;
    double room = 0.0;
    for (int i = 0; i < static_cast<int>(problem_.operands.size()); ++i) {
      if (is_exempt(i, rows)) continue;
      bool is_out = false;
      (void)is_shardable(problem_, i, rows, [&](int dim, std::int64_t pieces) {
        if (size(i, dim) >= pieces) return true;
        is_out |= interval(i, dim).most < pieces;
        const double factor = static_cast<double>(pieces) /
                              static_cast<double>(std::max<std::int64_t>(size(i, dim), 1));
        if (factor > room) {
          kept = &interval(i, dim);
          most = pieces - 1;
          room = factor;
        }
        return false;
      });
      if (is_out) return;
    }
    if (kept == nullptr) {
      broken_ = true;  // it fits and wins: not our decision
    } else {
      kept->most = most;
    }
  }

  void add_level(const Rows& rows, const Offer& theirs) {
    Formulas formulas;
    for (std::size_t i = 0; i < formulas_.size(); ++i) {
      formulas.push_back(prices_.of(static_cast<int>(i), rows).formula);
    }
    // Those with the same formulas always cost the same, and this is the first of them.
    if (std::find(level_formulas_.begin(), level_formulas_.end(), formulas) !=
        level_formulas_.end()) {
      return;
    }
    level_formulas_.push_back(std::move(formulas));
    level_.push_back({rows, theirs.line});
    region_->level_.comes_first.push_back(theirs.comes_first);
  }

  void keep_lines() {
    if (front_.empty() && level_.empty()) return;
    auto& lines = region_->lines_;
    for (std::size_t i = 0; i < problem_.operands.size(); ++i) {
      const auto moves = [&](const Alternative& alternative) {
        return alternative.line.growing[i] > 0.0;
      };
      if (ours_.line.growing[i] > 0.0 || std::any_of(front_.begin(), front_.end(), moves) ||
          std::any_of(level_.begin(), level_.end(), moves)) {
        lines.operands.push_back(static_cast<int>(i));
      }
    }
    add_line(lines.ours, ours_.line);
    for (const Alternative& alternative : front_) add_line(lines.alternatives, alternative.line);
    if (level_.empty()) return;
    auto& level = region_->level_;
    level.mesh = problem_.mesh;
    level.compensated_sum = problem_.dialect.compensated_sum;
    for (const Operand& operand : problem_.operands) level.held.push_back(operand.layout);
    level.prices.push_back({});
    add_prices(chosen_, formulas_);
    for (std::size_t i = 0; i < level_.size(); ++i) {
      add_line(level.lines, level_[i].line);
      add_prices(level_[i].rows, level_formulas_[i]);
    }
    if (level.prices.size() > kMaxLevelPrices) region_.reset();
  }

  void add_line(std::vector<double>& numbers, const LinearPrice& line) const {
    numbers.push_back(line.fixed);
    for (const int operand : region_->lines_.operands) numbers.push_back(line.growing[operand]);
  }

  void add_prices(const Rows& rows, const Formulas& formulas) {
    auto& level = region_->level_;
    for (int i = 0; i < static_cast<int>(formulas.size()); ++i) {
      if (formulas[i] == 0) {
        level.priced.push_back(0);
        continue;
      }
      const auto [known, is_new] = price_numbers_.try_emplace(
          {i, formulas[i]}, static_cast<std::uint16_t>(level.prices.size()));
      if (is_new) {
        Region::Price price{i, {}};
        for (int m = 0; m < problem_.mesh.ndim; ++m) {
          price.wanted[m] = wanted_placement(problem_, i, m, rows);
        }
        level.prices.push_back(price);
      }
      level.priced.push_back(known->second);
    }
  }

  const Problem& problem_;
  const Rows chosen_;
  PricesByBytes prices_;
  std::optional<Region> region_;
  std::vector<std::size_t> offsets_;
  Offer ours_{};
  Formulas formulas_;  // of the chosen strategy
  bool impossible_ = false;
  double rounding_ = 0.0;
  // Of those that would win for some bytes: those that cost more as it is, whether they fit or not;
  // the best of them; those that cost no more, but do not fit; and those that cost the same.
  std::vector<Alternative> alternatives_, front_, misfits_, level_;
  std::vector<Formulas> level_formulas_;
  std::map<std::pair<int, std::uint32_t>, std::uint16_t> price_numbers_;
  bool broken_ = false;
};

std::optional<Region> region_of(const Problem& problem, const Decision& decision) {
  if (decision.verdict != Verdict::kFound || problem.accepts || problem.sizes != nullptr ||
      !problem.table.constraints.empty() || !has_ordinary_links(problem.mesh) ||
      depends_on_history(problem)) {
    return std::nullopt;
  }
  return RegionFinder(problem, decision).run();
}

}  // namespace shardprop
