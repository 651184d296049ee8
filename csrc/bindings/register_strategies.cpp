#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <limits>

#include "bound_cost_model.h"
#include "bound_problem.h"
#include "optimal/price_table.h"
#include "register.h"
#include "search/strategy_table.h"

namespace shardprop::bindings {
namespace {

// Layouts as Python has them: tuples of placements.
std::vector<Layout> decode_layouts(Decoder& decoder, py::handle layouts, int mesh_dims) {
  std::vector<Layout> decoded;
  for (const py::handle placements : layouts) {
    std::vector<Placement> over_mesh;
    bool strided = false;
    for (const py::handle placement : placements) {
      over_mesh.push_back(decoder.placement(placement));
      strided |= over_mesh.back().is_strided();
    }
    if (static_cast<int>(over_mesh.size()) != mesh_dims) {
      throw std::invalid_argument("Expected a placement for each mesh dim.");
    }
    decoded.push_back(strided ? unordered_layout(over_mesh) : default_layout(over_mesh));
  }
  return decoded;
}

py::tuple layout_of(const StrategyTable::Example& example, const BoundProblem& bound) {
  const int mesh_dims = bound.problem().mesh.ndim;
  py::tuple over_mesh(mesh_dims);
  for (int m = 0; m < mesh_dims; ++m) {
    over_mesh[m] = bound.object(example.rows[m], example.position);
  }
  return over_mesh;
}

// (numbers of layouts [strategies, outputs and operands], the layouts by their numbers).
py::tuple table_of(const std::vector<std::pair<int, int>>& written, py::handle producers,
                   const BoundProblem& bound) {
  const Problem& problem = bound.problem();
  if (bound.is_symbolic()) unsupported("symbolic shape");
  StrategyTerms terms;
  for (const auto& [output, operand] : written) {
    if (output < 0 || output >= problem.table.outputs || operand < 0 ||
        operand >= problem.table.inputs) {
      throw std::invalid_argument("Expected numbers of an output and an operand.");
    }
    terms.written.push_back({output, operand});
  }
  Decoder decoder = bound.decoder();
  for (const py::handle layouts : producers) {
    terms.producers.push_back(decode_layouts(decoder, layouts, problem.mesh.ndim));
  }
  if (terms.producers.size() != problem.operands.size()) {
    throw std::invalid_argument("Expected layouts of each operand.");
  }
  const StrategyTable table = strategy_table(problem, terms);
  if (table.too_large) unsupported("more than a million strategies");
  const auto width = static_cast<py::ssize_t>(problem.table.width());
  py::array_t<std::int32_t> numbers({static_cast<py::ssize_t>(table.strategies), width});
  std::copy(table.layouts.begin(), table.layouts.end(), numbers.mutable_data());
  py::list layouts;
  for (const StrategyTable::Example& example : table.examples) {
    layouts.append(layout_of(example, bound));
  }
  return py::make_tuple(numbers, layouts);
}

// Microseconds, [targets, sources]; infinite where there is no plan.
py::array_t<double> prices_between(const BoundCostModel& bound, py::handle spec, py::handle sources,
                                   py::handle targets, double memory_limit) {
  Decoder decoder;
  const TensorInfo info = decoder.spec(spec).info;
  const auto from = decode_layouts(decoder, sources, bound.model.ndim);
  const auto to = decode_layouts(decoder, targets, bound.model.ndim);
  const auto table = price_table(bound.model, info, from, to, memory_limit, &bound.cache);
  py::array_t<double> prices(
      {static_cast<py::ssize_t>(to.size()), static_cast<py::ssize_t>(from.size())});
  std::transform(table.begin(), table.end(), prices.mutable_data(), [](Price price) {
    return price >= kNoPrice ? std::numeric_limits<double>::infinity() : microseconds(price);
  });
  return prices;
}

}  // namespace

void register_strategies(py::module_& module) {
  module.def("strategy_table", &table_of, py::arg("written"), py::arg("producers"),
             py::arg("problem"));
  module.def("price_table", &prices_between, py::arg("model"), py::arg("spec"), py::arg("sources"),
             py::arg("targets"), py::arg("memory_limit"));
}

}  // namespace shardprop::bindings
