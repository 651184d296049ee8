// One question to the core as Python asks it: the arguments of `decide`, decoded. Every function
// that is asked the same way is defined with them here, so that there is one list of them.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "decode.h"
#include "register.h"

namespace shardprop::bindings {

// What the caller passes; _core.pyi has the types.
struct Arguments {
  const BoundMesh& mesh;
  py::handle device_mesh, rows;
  int outputs;
  py::handle specs;
  int positional;
  unsigned options;
  py::handle ask_kinds, ask_tracing, fixed, absent_outputs, pinned, accepts, symbolic,
      output_shapes;
};

// A problem whose cells can be turned back into Python placements. It is not to be moved: the
// problem holds on to it.
struct BoundProblem {
  explicit BoundProblem(const Arguments& asked);
  BoundProblem(const BoundProblem&) = delete;
  BoundProblem& operator=(const BoundProblem&) = delete;

  Arguments arguments;
  Decoder decoder;
  Problem problem;
  DecodedRule rule;
  Expansion expansion;
  bool added_row = false;    // row 0 of the rule is the all-Replicate row that we put first
  bool symbolic = false;     // some size is an expression
  bool has_history = false;  // prices depend on the history of torch's graph planners

  [[nodiscard]] py::object object(int row, int position) const;
  // Per position (outputs, then operands) the placements over the mesh; None for an absent output.
  [[nodiscard]] py::tuple placements(const Rows& rows) const;

 private:
  void decode_operands();
  void decode_fixed();
  void decode_table();
  void decode_output_shapes();
};

// Defines `name` in the module as `answer(first..., bound)`; `names` are those of the first
// arguments.
template <class... First, class Answer, class... Names>
void define_question(py::module_& module, const char* name, Answer answer, Names... names) {
  module.def(
      name,
      [answer](First... first, const BoundMesh& mesh, py::handle device_mesh, py::handle rows,
               int outputs, py::handle specs, int positional, unsigned options,
               py::handle ask_kinds, py::handle ask_tracing, py::handle fixed,
               py::handle absent_outputs, py::handle pinned, py::handle accepts,
               py::handle symbolic, py::handle output_shapes) {
        BoundProblem bound({mesh, device_mesh, rows, outputs, specs, positional, options, ask_kinds,
                            ask_tracing, fixed, absent_outputs, pinned, accepts, symbolic,
                            output_shapes});
        return answer(first..., bound);
      },
      names..., py::arg("mesh"), py::arg("device_mesh"), py::arg("rows"), py::arg("outputs"),
      py::arg("specs"), py::arg("positional"), py::arg("options"), py::arg("ask_kinds"),
      py::arg("ask_tracing"), py::arg("fixed"), py::arg("absent_outputs"), py::arg("pinned"),
      py::arg("accepts"), py::arg("symbolic"), py::arg("output_shapes") = py::none());
}

}  // namespace shardprop::bindings
