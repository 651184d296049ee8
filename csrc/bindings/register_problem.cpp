// The problem that Python puts to the core.
#include <pybind11/pybind11.h>

#include "bound_problem.h"
#include "register.h"

namespace shardprop::bindings {

void register_problem(py::module_& module) {
  py::class_<BoundProblem>(module, "Problem", "What the core is asked about one op, decoded.")
      .def(py::init([](const BoundMesh& mesh, py::handle device_mesh, py::handle rows, int outputs,
                       py::handle specs, int positional, unsigned options, py::handle ask_kinds,
                       py::handle ask_tracing, py::handle fixed, py::handle absent_outputs,
                       py::handle pinned, py::handle accepts, py::handle symbolic,
                       py::handle output_shapes) {
             return std::make_unique<BoundProblem>(Arguments{
                 mesh, device_mesh, rows, outputs, specs, positional, options, ask_kinds,
                 ask_tracing, fixed, absent_outputs, pinned, accepts, symbolic, output_shapes});
           }),
           py::arg("mesh"), py::arg("device_mesh"), py::arg("rows"), py::arg("outputs"),
           py::arg("specs"), py::arg("positional"), py::arg("options"), py::arg("ask_kinds"),
           py::arg("ask_tracing"), py::arg("fixed"), py::arg("absent_outputs"), py::arg("pinned"),
           py::arg("accepts"), py::arg("symbolic"), py::arg("output_shapes") = py::none());
}

}  // namespace shardprop::bindings
