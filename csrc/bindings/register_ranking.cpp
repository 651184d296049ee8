#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bound_problem.h"
#include "register.h"
#include "search/ranking.h"

namespace shardprop::bindings {
namespace {

// As _core.pyi lists them.
const char* name_of(Filter::Reason reason) {
  switch (reason) {
    case Filter::Reason::kMixedPartial:
      return "mixed_partial";
    case Filter::Reason::kInPlace:
      return "in_place";
    case Filter::Reason::kFixed:
      return "fixed";
    case Filter::Reason::kConstraint:
      return "constraint";
    case Filter::Reason::kTooSmall:
      return "too_small";
  }
  return "";
}

py::tuple row_numbers(const Rows& rows, int count) {
  py::tuple numbers(count);
  for (int m = 0; m < count; ++m) numbers[m] = static_cast<int>(rows[m]);
  return numbers;
}

py::list as_python(const std::vector<Strategy>& best, const BoundProblem& bound) {
  py::list strategies;
  for (const Strategy& strategy : best) {
    strategies.append(py::make_tuple(row_numbers(strategy.rows, bound.problem().mesh.ndim),
                                     bound.placements(strategy.rows), strategy.cost,
                                     py::cast(strategy.operand_costs)));
  }
  return strategies;
}

py::list as_python(const std::vector<Refused>& refused) {
  py::list refusals;
  for (const Refused& each : refused) {
    refusals.append(py::make_tuple(each.mesh_dim, each.row, name_of(each.refusal.reason),
                                   each.refusal.position, each.dropped,
                                   row_numbers(each.before, each.mesh_dim)));
  }
  return refusals;
}

// The rows after expansion: (the row of the rule that each came from, its placements).
py::list table_of(const BoundProblem& bound) {
  py::list rows;
  const RowTable& table = bound.problem().table;
  for (int row = 0; row < table.rows(); ++row) {
    const int source = bound.source(row);
    py::tuple cells(table.width());
    for (int p = 0; p < table.width(); ++p) {
      const bool absent = table.at(row, p).kind == Kind::kAbsent;
      cells[p] = absent ? py::object(py::none()) : bound.object(row, p);
    }
    rows.append(py::make_tuple(source < 0 ? py::object(py::none()) : py::int_(source), cells));
  }
  return rows;
}

py::tuple rank_bound(std::size_t limit, const BoundProblem& bound) {
  if (bound.is_symbolic()) unsupported("symbolic shape");
  const Ranking ranking = rank(bound.problem(), limit);
  return py::make_tuple(static_cast<int>(ranking.verdict), as_python(ranking.best, bound),
                        ranking.valid, ranking.considered, as_python(ranking.refused),
                        table_of(bound), ranking.ties, ranking.turned_down);
}

}  // namespace

void register_ranking(py::module_& module) {
  module.def("rank", &rank_bound, py::arg("limit"), py::arg("problem"));
}

}  // namespace shardprop::bindings
