#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bound_problem.h"
#include "register.h"
#include "search/search.h"
#include "search/symbolic.h"

namespace shardprop::bindings {
namespace {

py::tuple decide_bound(const BoundProblem& bound) {
  const Problem& problem = bound.problem();
  return bound.answer(bound.is_symbolic() ? decide_symbolic(problem) : decide(problem));
}

}  // namespace

void register_decide(py::module_& module) {
  module.def("decide", &decide_bound, py::arg("problem"));
}

}  // namespace shardprop::bindings
