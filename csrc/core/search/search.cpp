#include "search/search.h"

#include <algorithm>
#include <queue>

#include "search/enumerate.h"
#include "search/filter.h"
#include "search/pricer.h"
#include "torch_plan/transition.h"

namespace shardprop {
namespace {

// Row numbers plus one, the first mesh dim foremost, 0 where none is chosen yet: as a number, a
// lower bound on the places of all completions in torch's order.
using Key = std::array<std::uint64_t, 2>;

Key key_with(Key key, int m, int row) {
  key[m / 4] |= static_cast<std::uint64_t>(row + 1) << (48 - 16 * (m % 4));
  return key;
}

std::uint16_t row_at(const Key& key, int m) {
  return static_cast<std::uint16_t>((key[m / 4] >> (48 - 16 * (m % 4))) - 1);
}

struct Node {
  double bound;
  Key key;
  int first_known;  // rows are chosen for the mesh dims from here on

  // A tie in price goes to the strategy that torch lists first.
  bool operator>(const Node& other) const {
    return bound != other.bound ? bound > other.bound : key > other.key;
  }
};

class Search {
 public:
  explicit Search(const Problem& problem)
      : problem_(problem), classes_(problem), filter_(problem), mesh_dims_(problem.mesh.ndim) {
    pricers_.reserve(classes_.count());
    for (int c = 0; c < classes_.count(); ++c) {
      pricers_.emplace_back(problem, classes_.representative(c));
    }
    std::vector<Node> nodes;
    nodes.reserve(64);
    queue_ = Queue(std::greater<>{}, std::move(nodes));
    wanted_.resize(classes_.count());
    class_cost_.resize(classes_.count());
    costs_.resize(problem.operands.size());
  }

  Decision run() {
    if (problem_.prefers_no_redistribute && find_unmoved(0)) return finish(0.0);
    find_least_completions();
    std::optional<Node> best;
    queue_.push({0.0, {0, 0}, mesh_dims_});
    while (!queue_.empty()) {
      const Node node = queue_.top();
      if (best && node.bound > best->bound) break;
      queue_.pop();
      if (best && node.key > best->key) continue;  // as dear at least, and later in torch's order
      load(node);
      if (node.first_known > 0) {
        expand(node);
        if (queue_.size() > kMaxNodes) return fail(Verdict::kTooLarge);
      } else if (filter_.passes(rows_) && (!problem_.accepts || problem_.accepts(rows_))) {
        best = node;
      }
    }
    if (!best) {
      return fail(filter_.blocked_in_place() ? Verdict::kNoInPlaceStrategy : Verdict::kNoStrategy);
    }
    load(*best);
    return finish(best->bound);
  }

 private:
  // What the mesh dims left of m cost at least, whatever rows they get: a sum over mesh dims of the
  // cheapest row, each operand taken with the fewest bytes it could hold by then.
  void find_least_completions() {
    for (int m = 0; m < mesh_dims_; ++m) {
      double least = kImpossible;
      for (int row = 0; row < problem_.table.rows(); ++row) {
        double cost = 0.0;
        for (std::size_t i = 0; i < costs_.size(); ++i) {
          const int operand = static_cast<int>(i);
          cost += pricers_[classes_.of(operand)].least(
              m, problem_.table.at(row, problem_.table.outputs + operand));
        }
        least = std::min(least, cost);
      }
      least_before_[m + 1] = least_before_[m] + least;
    }
  }

  // The last strategy in torch's order that leaves every positional operand as it is, for free.
  bool find_unmoved(int m) {
    if (m == mesh_dims_) {
      return filter_.passes(rows_) && (!problem_.accepts || problem_.accepts(rows_)) &&
             price_leaf() == 0.0;
    }
    for (int row = problem_.table.rows() - 1; row >= 0; --row) {
      if (!keeps_operands(problem_, m, row)) continue;
      rows_[m] = static_cast<std::uint16_t>(row);
      if (find_unmoved(m + 1)) return true;
    }
    return false;
  }

  double price_leaf() {
    for (int m = 0; m < mesh_dims_; ++m) want(m, rows_[m]);
    return total(0);
  }

  void want(int m, int row) {
    for (int c = 0; c < classes_.count(); ++c) {
      wanted_[c][m] = problem_.table.at(row, problem_.table.outputs + classes_.representative(c));
    }
  }

  void load(const Node& node) {
    for (int m = node.first_known; m < mesh_dims_; ++m) {
      rows_[m] = row_at(node.key, m);
      want(m, rows_[m]);
    }
  }

  // Sum over operands of what the mesh dims from `first_known` on cost at least.
  double total(int first_known) {
    for (int c = 0; c < classes_.count(); ++c) {
      class_cost_[c] = pricers_[c].bound(wanted_[c].data(), first_known);
    }
    for (std::size_t i = 0; i < costs_.size(); ++i) {
      costs_[i] = class_cost_[classes_.of(static_cast<int>(i))];
    }
    return python_sum(costs_, problem_.dialect.compensated_sum);
  }

  void expand(const Node& node) {
    // Sums in another order than torch's, and compensated ones, are not monotone in the last bits.
    constexpr double kSlack = 1.0 - 1e-12;
    const int m = node.first_known - 1;
    filter_.clear(chosen_, false);
    for (int i = m + 1; i < mesh_dims_; ++i) filter_.extend(chosen_, i, rows_[i]);
    for (int row = 0; row < problem_.table.rows(); ++row) {
      if (!filter_.admits(chosen_, m, row)) continue;
      ++decision_.nodes;
      want(m, row);
      double bound = total(m);
      if (m > 0) {
        const double with_rest = (bound + least_before_[m]) * kSlack;
        if (problem_.dialect.compensated_sum) bound *= kSlack;
        bound = std::max(bound, with_rest);
      }
      queue_.push({bound, key_with(node.key, m, row), m});
    }
  }

  Decision finish(double cost) {
    (void)price_leaf();
    decision_.verdict = Verdict::kFound;
    decision_.rows = rows_;
    decision_.cost = cost;
    decision_.operand_costs = costs_;
    return std::move(decision_);
  }

  Decision fail(Verdict verdict) {
    decision_.verdict = verdict;
    return std::move(decision_);
  }

  using Queue = std::priority_queue<Node, std::vector<Node>, std::greater<>>;

  const Problem& problem_;
  OperandClasses classes_;
  Filter filter_;
  int mesh_dims_;
  std::vector<GreedyPricer> pricers_;
  std::array<double, kMaxMeshDims + 1> least_before_{};
  std::vector<std::array<Placement, kMaxMeshDims>> wanted_;
  std::vector<double> class_cost_, costs_;
  Queue queue_;
  Filter::Chosen chosen_;
  Rows rows_{};
  Decision decision_;
};

}  // namespace

Decision decide(const Problem& problem) {
  if (depends_on_history(problem)) return decide_by_enumeration(problem);
  return Search(problem).run();
}

}  // namespace shardprop
