#include "search/prices_by_bytes.h"

#include <algorithm>

#include "torch_plan/greedy.h"
#include "torch_plan/transition.h"

namespace shardprop {

PricesByBytes::PricesByBytes(const Problem& problem)
    : problem_(problem), classes_(problem), known_(classes_.count()) {}

const PriceByBytes& PricesByBytes::of(int operand, const Rows& rows) {
  const Layout wanted = wanted_layout(problem_, operand, rows);
  Known& known = known_[classes_.of(operand)];
  const std::uint64_t key = known.keys.of(wanted);
  const std::uint32_t seen = known.index.find(key);
  if (seen != FlatMap::kNone) return known.lines[seen];
  known.index.insert(key, static_cast<std::uint32_t>(known.lines.size()));
  return known.lines.emplace_back(line(problem_.operands[operand], wanted, known));
}

PriceByBytes PricesByBytes::line(const Operand& operand, const Layout& wanted, Known& known) const {
  if (operand.where == Operand::Where::kForeign) return {kImpossible};
  if (operand.where == Operand::Where::kPinned) return {};
  if (const auto cost = cost_without_plan(operand.layout, wanted, problem_.member)) return {*cost};
  // So many that no latency is left in the sum; a power of two, so that the share is exact.
  constexpr double kMany = 0x1p100;
  const double latency = greedy_cost(operand.layout, wanted, problem_.mesh, 0.0);
  if (latency == kImpossible) return {kImpossible};
  const double share =
      (greedy_cost(operand.layout, wanted, problem_.mesh, kMany) - latency) / kMany;
  const Formula steps = formula(operand, wanted);
  const auto found = std::find(known.formulas.begin(), known.formulas.end(), steps);
  const auto number = static_cast<std::uint32_t>(found - known.formulas.begin());
  if (found == known.formulas.end()) known.formulas.push_back(steps);
  return {latency, share, number};
}

PricesByBytes::Formula PricesByBytes::formula(const Operand& operand, const Layout& wanted) const {
  struct Steps {
    const Mesh& mesh;
    Formula all = {};
    std::size_t priced = 0;

    void open(int) {}
    void either(int, Placement, Placement) {}
    void step(int m, Placement from, Placement to) {
      const Step unit = price_step(from, to, mesh, m, 1.0);
      if (unit.cost == 0.0 && unit.gigabytes == 1.0) return;  // changes neither price nor bytes
      all.push_back({from.kind, to.kind, mesh.size[m], mesh.bandwidth[m], mesh.latency[m]});
      if (unit.cost != 0.0) priced = all.size();
    }
  } steps{problem_.mesh};
  const auto shards = num_shards(operand.layout, problem_.mesh);
  walk_greedy(operand.layout, wanted.placements.data(), 0, shards, steps);
  steps.all.resize(steps.priced);  // what happens to the bytes after the last price is nobody's
  return steps.all;
}

}  // namespace shardprop
