// Table of contents of shardprop._core.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "decode.h"
#include "optimal/cost_model.h"
#include "optimal/plan_space.h"
#include "register.h"
#include "rule/rule.h"
#include "torch_plan/graph_search.h"

namespace py = pybind11;
using namespace shardprop;
using namespace shardprop::bindings;

PYBIND11_MODULE(_core, module, py::mod_gil_not_used()) {
  module.doc() = "The compiled core of shardprop. Use the shardprop package, not this.";
  static const py::handle unsupported = py::register_exception<Unsupported>(module, "Unsupported");
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const TooManyPlacements&) {
      py::set_error(unsupported, "more than 32 different placements in one plan");
    } catch (const OutsidePlanSpace& reason) {
      py::set_error(unsupported, reason.what());
    }
  });
  py::register_exception<RuleError>(module, "RuleError", PyExc_ValueError);
  py::register_exception<CostError>(module, "CostError", PyExc_ValueError);
  module.def("configure", &configure, py::arg("types"), py::arg("read_size"),
             py::arg("zero_fill_partial"), py::arg("compensated_sum"),
             "Tell the core torch's placement types and dialect. Called once, on import.");
  register_build(module);
  register_names(module);
  register_redistribute(module);
  register_problem(module);
  register_decide(module);
  register_ranking(module);
  register_exact(module);
  register_generation(module);
  register_graph(module);
  register_layout(module);
  register_metadata(module);
  register_notation(module);
  register_signature(module);
  register_region(module);
  register_strategies(module);
}
