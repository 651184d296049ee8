// One problem as Python puts it to the core: decoded once, and asked as often as there are
// questions.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "decode.h"
#include "register.h"
#include "search/symbolic.h"

namespace shardprop::bindings {

// What torch does differently for an op and its rule, as bits.
enum Option : unsigned {
  kInPlace = 1,
  kAllowUneven = 2,
  kPrefersNoRedistribute = 4,
  kForceGraph = 8,
  kKeepAbsent = 16,
  kAlwaysShards = 32,
  kAskKinds = 64,
};

// What the caller passes; _core.pyi has the types. They are borrowed for as long as decoding takes.
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

// A problem whose cells can be turned back into Python placements. It is not to be moved, for the
// problem holds on to it, and nothing changes it once it is made.
//
// It owns placements, a filter (`accepts`) and a teller of sizes (`symbolic`). Python's garbage
// collector does not see them through it: none of them may refer to it.
class BoundProblem {
 public:
  explicit BoundProblem(const Arguments& asked);
  BoundProblem(const BoundProblem&) = delete;
  BoundProblem& operator=(const BoundProblem&) = delete;

  [[nodiscard]] const Problem& problem() const { return problem_; }
  // To decode what comes with one question: by a copy, so that the next finds this one unchanged.
  [[nodiscard]] const Decoder& decoder() const { return decoder_; }
  [[nodiscard]] bool is_symbolic() const { return problem_.sizes != nullptr; }
  // Do prices depend on the history of torch's graph planners?
  [[nodiscard]] bool has_history() const { return has_history_; }

  // The row of the rule that a row of the table came from; -1: the one that we put first.
  [[nodiscard]] int source(int row) const { return expansion_.source[row] - (added_row_ ? 1 : 0); }
  [[nodiscard]] py::object object(int row, int position) const;
  // Per position (outputs, then operands) the placements over the mesh; None for an absent output.
  [[nodiscard]] py::tuple placements(const Rows& rows) const;
  // Verdict, placements, cost, costs per operand and nodes; None for what there is none of.
  [[nodiscard]] py::tuple answer(const Decision& decision) const;

 private:
  bool decode_operands(const Arguments& asked);  // is some size an expression?
  void decode_fixed(const Arguments& asked);
  void decode_table(const Arguments& asked, bool symbolic);
  void decode_output_shapes(py::handle ask);

  Decoder decoder_;
  Problem problem_;
  DecodedRule rule_;
  Expansion expansion_;
  py::object accepts_;
  std::unique_ptr<SizeOracle> sizes_;
  bool added_row_ = false;  // row 0 of the table is the all-Replicate row that we put first
  bool has_history_ = false;
};

}  // namespace shardprop::bindings
