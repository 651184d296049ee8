#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bound_problem.h"
#include "register.h"
#include "search.h"
#include "symbolic.h"

namespace shardprop::bindings {
namespace {

// A strategy as Python sees it: wanted placements per operand, and what each costs now.
py::tuple as_python(const BoundProblem& bound, const Strategy& strategy) {
  const py::tuple all = bound.placements(strategy.rows);
  return py::make_tuple(all[py::slice(bound.problem.table.outputs, bound.problem.table.width(), 1)],
                        py::cast(strategy.operand_costs));
}

py::list as_python(const BoundProblem& bound, std::span<const Strategy> strategies) {
  py::list all;
  for (const Strategy& strategy : strategies) all.append(as_python(bound, strategy));
  return all;
}

SizeOracle size_oracle(const BoundProblem& bound, const py::object& sizes) {
  SizeOracle oracle;
  oracle.holds = [sizes](int operand, int tensor_dim, std::int64_t pieces) {
    return sizes.attr("holds")(operand, tensor_dim, pieces).cast<bool>();
  };
  oracle.cheapest = [&bound, sizes](std::span<const Strategy> strategies) {
    return sizes.attr("cheapest")(as_python(bound, strategies)).cast<std::size_t>();
  };
  oracle.keep_product = [sizes](int operand, std::optional<std::int64_t> least,
                                std::optional<std::int64_t> most) {
    sizes.attr("keep_product")(operand, least, most);
  };
  oracle.keep_cheapest = [&bound, sizes](const Strategy& chosen, std::span<const Strategy> before,
                                         std::span<const Strategy> after) {
    sizes.attr("keep_cheapest")(as_python(bound, chosen), as_python(bound, before),
                                as_python(bound, after));
  };
  return oracle;
}

py::tuple decide_bound(BoundProblem& bound) {
  Problem& problem = bound.problem;
  const SizeOracle oracle =
      bound.symbolic ? size_oracle(bound, bound.arguments.symbolic()) : SizeOracle{};
  if (bound.symbolic) problem.sizes = &oracle;
  const Decision decision = bound.symbolic ? decide_symbolic(problem) : decide(problem);
  if (decision.verdict != Verdict::kFound) {
    return py::make_tuple(static_cast<int>(decision.verdict), py::none(), py::none(), py::none(),
                          decision.nodes);
  }
  return py::make_tuple(0, bound.placements(decision.rows), decision.cost,
                        py::cast(decision.operand_costs), decision.nodes);
}

}  // namespace

void register_decide(py::module_& module) { define_question(module, "decide", &decide_bound); }

}  // namespace shardprop::bindings
