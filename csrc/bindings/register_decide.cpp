#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bound_problem.h"
#include "register.h"
#include "search.h"
#include "symbolic.h"

namespace shardprop::bindings {
namespace {

py::tuple decide_bound(const BoundProblem& bound) {
  const Problem& problem = bound.problem();
  const Decision decision = bound.is_symbolic() ? decide_symbolic(problem) : decide(problem);
  const int verdict = static_cast<int>(decision.verdict);
  if (decision.verdict != Verdict::kFound) {
    return py::make_tuple(verdict, py::none(), py::none(), py::none(), decision.nodes);
  }
  return py::make_tuple(verdict, bound.placements(decision.rows), decision.cost,
                        py::cast(decision.operand_costs), decision.nodes);
}

}  // namespace

void register_decide(py::module_& module) {
  module.def("decide", &decide_bound, py::arg("problem"));
}

}  // namespace shardprop::bindings
