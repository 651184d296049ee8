// Whole-graph problems (graph/problem.h) and their solver, with NumPy arrays at the boundary.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "graph/solve.h"
#include "register.h"

namespace py = pybind11;

namespace shardprop::bindings {
namespace {

using graph::Answer;
using graph::Problem;
using graph::ProblemError;

template <typename T>
using Array = py::array_t<T, py::array::c_style | py::array::forcecast>;
using Ints = Array<std::int32_t>;
using Doubles = Array<double>;

template <typename T>
Array<T> array_of(py::handle object, int dims, const std::string& place) {
  Array<T> array = Array<T>::ensure(object);
  if (!array) throw py::error_already_set();
  if (array.ndim() != dims) {
    throw ProblemError("Expected an array of " + std::to_string(dims) + " dims for " + place +
                       ", got " + std::to_string(array.ndim()) + ".");
  }
  return array;
}

template <typename T>
std::vector<T> vector_of(py::handle object, const std::string& place) {
  const Array<T> array = array_of<T>(object, 1, place);
  return std::vector<T>(array.data(), array.data() + array.size());
}

template <typename T>
std::vector<std::vector<T>> vectors_of(const py::list& list, const std::string& place) {
  std::vector<std::vector<T>> out;
  for (const py::handle item : list) {
    out.push_back(vector_of<T>(item, place + " " + std::to_string(out.size())));
  }
  return out;
}

std::vector<graph::Table> tables_of(const py::list& list) {
  std::vector<graph::Table> out;
  for (const py::handle item : list) {
    const auto array = array_of<double>(item, 2, "table " + std::to_string(out.size()));
    out.push_back({static_cast<int>(array.shape(0)), static_cast<int>(array.shape(1)),
                   std::vector<double>(array.data(), array.data() + array.size())});
  }
  return out;
}

std::vector<graph::Edge> edges_of(py::handle object) {
  const auto array = array_of<std::int32_t>(object, 2, "edges");
  if (array.shape(1) != 5) throw ProblemError("Expected edges of 5 columns.");
  std::vector<graph::Edge> out;
  for (py::ssize_t e = 0; e < array.shape(0); ++e) {
    const std::int32_t* row = array.data(e, 0);
    out.push_back({row[0], row[1], row[2], row[3], row[4]});
  }
  return out;
}

std::vector<graph::Row> rows_of(const py::list& list) {
  std::vector<graph::Row> out;
  for (const py::handle item : list) {
    const std::string place = "row " + std::to_string(out.size());
    const auto fields = py::cast<py::tuple>(item);
    if (fields.size() != 5) throw ProblemError("Expected 5 fields in " + place + ".");
    out.push_back({py::cast<double>(fields[0]), py::cast<double>(fields[1]),
                   vector_of<std::int32_t>(fields[2], place),
                   vector_of<std::int32_t>(fields[3], place), vector_of<double>(fields[4], place)});
  }
  return out;
}

std::shared_ptr<Problem> make_problem(const py::list& unaries, const py::list& tables,
                                      const py::object& edges, const py::list& classes,
                                      const py::list& groups, const py::list& rows) {
  return std::make_shared<Problem>(vectors_of<double>(unaries, "node"), tables_of(tables),
                                   edges_of(edges), vectors_of<std::int32_t>(classes, "classes"),
                                   vectors_of<std::int32_t>(groups, "group"), rows_of(rows));
}

const char* status_name(Answer::Status status) {
  switch (status) {
    case Answer::Status::kOptimal:
      return "optimal";
    case Answer::Status::kFeasible:
      return "feasible";
    case Answer::Status::kInfeasible:
      return "infeasible";
    default:
      return "unknown";
  }
}

py::object labels_of(const Answer& answer) {
  if (answer.labels.empty() && answer.objective == graph::kInfinity) return py::none();
  return Ints(static_cast<py::ssize_t>(answer.labels.size()), answer.labels.data());
}

struct BoundState {
  std::shared_ptr<const graph::WarmState> state;
};

// The lock is released while solving, and taken about ten times a second to look for an interrupt
// and to report.
Answer solve_bound(const std::shared_ptr<Problem>& problem, double time_limit, double relative_gap,
                   const BoundState* warm, const py::object& progress) {
  graph::Options options;
  options.time_limit = time_limit;
  options.relative_gap = relative_gap;
  if (warm != nullptr) options.warm = warm->state.get();
  options.progress = [&progress](double seconds, std::int64_t iterations, double bound,
                                 double objective) {
    const py::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (!progress.is_none()) progress(seconds, iterations, bound, objective);
  };
  const py::gil_scoped_release unlock;
  return graph::solve(*problem, options);
}

}  // namespace

void register_graph(py::module_& module) {
  py::class_<Problem, std::shared_ptr<Problem>>(module, "GraphProblem")
      .def(py::init(&make_problem), py::arg("unaries"), py::arg("tables"), py::arg("edges"),
           py::arg("classes"), py::arg("groups"), py::arg("rows"));
  py::class_<BoundState>(module, "GraphState");
  py::class_<Answer>(module, "GraphAnswer")
      .def_property_readonly("status", [](const Answer& a) { return status_name(a.status); })
      .def_property_readonly("labels", &labels_of)
      .def_readonly("objective", &Answer::objective)
      .def_readonly("lower_bound", &Answer::lower_bound)
      .def_readonly("proved", &Answer::proved)
      .def_readonly("seconds", &Answer::seconds)
      .def_readonly("iterations", &Answer::iterations)
      .def_readonly("fixed", &Answer::fixed)
      .def_readonly("width", &Answer::width)
      .def_readonly("nodes", &Answer::nodes)
      .def_property_readonly("state", [](const Answer& a) { return BoundState{a.state}; });
  module.def("solve_graph", &solve_bound, py::arg("problem"), py::kw_only(),
             py::arg("time_limit") = graph::kInfinity, py::arg("relative_gap") = 0.0,
             py::arg("warm") = py::none(), py::arg("progress") = py::none());
}

}  // namespace shardprop::bindings
