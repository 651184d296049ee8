#include "search/pricer.h"

#include <algorithm>

#include "torch_plan/greedy.h"
#include "torch_plan/transition.h"

namespace shardprop {
namespace {

bool same_column(const RowTable& table, int a, int b) {
  for (int r = 0; r < table.rows(); ++r) {
    if (!(table.at(r, table.outputs + a) == table.at(r, table.outputs + b))) return false;
  }
  return true;
}

bool alike(const Problem& problem, int a, int b) {
  const Operand &x = problem.operands[a], &y = problem.operands[b];
  return x.layout == y.layout && x.where == y.where && x.planner == y.planner &&
         x.info.itemsize == y.info.itemsize && x.info.shape == y.info.shape &&
         same_column(problem.table, a, b);
}

bool any_cell(const Problem& problem, int operand, auto predicate) {
  for (int r = 0; r < problem.table.rows(); ++r) {
    if (predicate(problem.table.at(r, problem.table.outputs + operand))) return true;
  }
  return false;
}

}  // namespace

OperandClasses::OperandClasses(const Problem& problem) {
  for (int i = 0; i < static_cast<int>(problem.operands.size()); ++i) {
    const auto twin = std::find_if(representative_.begin(), representative_.end(),
                                   [&](int r) { return alike(problem, r, i); });
    class_of_.push_back(static_cast<int>(twin - representative_.begin()));
    if (twin == representative_.end()) representative_.push_back(i);
  }
}

GreedyPricer::GreedyPricer(const Problem& problem, int operand)
    : problem_(problem), operand_(problem.operands[operand]) {
  const Layout& src = operand_.layout;
  if (operand_.where == Operand::Where::kForeign) {
    mode_ = Mode::kInfinite;
  } else if (operand_.where == Operand::Where::kPinned || all_replicate(src) || !problem.member) {
    mode_ = Mode::kZero;
  } else if (!src.ordered) {
    // Only a spec whose strided shards stand for an order, too, is equal to it.
    const bool may_equal = problem.strided_is_order && has_strided(src);
    mode_ = may_equal ? Mode::kInfiniteIfMoved : Mode::kInfinite;
  } else {
    mode_ = Mode::kPriced;
  }
  may_shard_ = any_cell(problem, operand, [](Placement p) { return p.is_shard(); });
  shards_ = num_shards(src, problem.mesh);
  gigabytes_ = local_gigabytes(operand_.info.bytes(), shards_);
}

double GreedyPricer::bound(const Placement* wanted, int first_known) const {
  const Layout& src = operand_.layout;
  const Placement *begin = wanted + first_known, *end = wanted + src.ndim;
  switch (mode_) {
    case Mode::kZero:
      return 0.0;
    case Mode::kInfinite:
      return kImpossible;
    case Mode::kInfiniteIfMoved:
      return std::equal(begin, end, src.placements.begin() + first_known) ? 0.0 : kImpossible;
    case Mode::kPriced:
      break;
  }
  // A strided shard that stands for a shard order leaves torch without an order to plan for.
  if (std::any_of(begin, end, [](Placement p) { return p.is_strided(); })) return kImpossible;
  return greedy_cost(src, wanted, first_known, problem_.mesh, gigabytes_, shards_, may_shard_);
}

double GreedyPricer::least(int mesh_dim, Placement wanted) const {
  const Placement from = operand_.layout.placements[mesh_dim];
  if (mode_ == Mode::kZero || (from == wanted && mode_ != Mode::kInfinite)) return 0.0;
  if (mode_ != Mode::kPriced || wanted.is_strided()) return kImpossible;
  double gigabytes = gigabytes_;
  for (int m = 0; m < problem_.mesh.ndim && may_shard_; ++m) {
    if (m != mesh_dim && !operand_.layout.placements[m].is_shard()) {
      gigabytes /= static_cast<double>(problem_.mesh.size[m]);
    }
  }
  const double direct = price_step(from, wanted, problem_.mesh, mesh_dim, gigabytes).cost;
  if (!wanted.is_shard()) return direct;
  // A misaligned shard is replicated first.
  return std::min(direct, price_step(from, replicate(), problem_.mesh, mesh_dim, gigabytes).cost);
}

HistoryPricer::HistoryPricer(const Problem& problem)
    : problem_(problem), classes_(problem), known_(classes_.count()) {}

std::uint64_t DestinationKeys::of(const Layout& wanted) {
  std::uint64_t key = 0;
  for (int m = 0; m < wanted.ndim; ++m) {
    const Placement p = wanted.placements[m];
    const auto found = std::find(placements_.begin(), placements_.end(), p);
    const auto number = static_cast<std::uint64_t>(found - placements_.begin());
    if (found == placements_.end()) placements_.push_back(p);
    key = key << 8 | number;
  }
  return key;
}

GraphPlanner& HistoryPricer::planner(const Operand& operand) {
  if (problem_.fresh_planners) planners_.erase(operand.planner);
  return planners_
      .try_emplace(operand.planner, problem_.mesh, operand.info, problem_.dialect,
                   problem_.op_hashes)
      .first->second;
}

std::optional<double> HistoryPricer::price(int index, const Layout& wanted) {
  const Operand& operand = problem_.operands[index];
  if (operand.where == Operand::Where::kForeign) return kImpossible;
  if (operand.where == Operand::Where::kPinned) return 0.0;
  if (const auto cost = cost_without_plan(operand.layout, wanted, problem_.member)) return cost;
  if (!needs_graph(operand.layout, wanted, problem_.force_graph)) {
    return greedy_cost(operand.layout, wanted, problem_.mesh, operand.info.bytes());
  }
  Known& known = known_[classes_.of(index)];
  const std::uint64_t key = known.keys.of(wanted);
  const std::uint32_t seen = known.index.find(key);
  if (seen != FlatMap::kNone) return known.costs[seen];
  const auto cost = planner(operand).price(operand.layout, wanted);
  known.index.insert(key, static_cast<std::uint32_t>(known.costs.size()));
  known.costs.push_back(cost);
  return cost;
}

bool depends_on_history(const Problem& problem) {
  if (!problem.member) return false;
  for (int i = 0; i < static_cast<int>(problem.operands.size()); ++i) {
    const Layout& src = problem.operands[i].layout;
    if (problem.operands[i].where != Operand::Where::kHere || !src.ordered || all_replicate(src)) {
      continue;
    }
    if (problem.force_graph || has_strided(src) || !has_default_order(src)) return true;
    if (!problem.strided_is_order &&
        any_cell(problem, i, [](Placement p) { return p.is_strided(); })) {
      return true;
    }
  }
  return false;
}

Layout wanted_layout(const Problem& problem, int operand, const Rows& rows) {
  std::array<Placement, kMaxMeshDims> placements;
  bool strided = false;
  for (int m = 0; m < problem.mesh.ndim; ++m) {
    placements[m] = problem.table.at(rows[m], problem.table.outputs + operand);
    strided |= placements[m].is_strided();
  }
  const std::span<const Placement> span(placements.data(), problem.mesh.ndim);
  return strided && problem.strided_is_order ? unordered_layout(span) : default_layout(span);
}

}  // namespace shardprop
