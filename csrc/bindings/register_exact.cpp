#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bound_cost_model.h"
#include "bound_problem.h"
#include "optimal/exact_plan.h"
#include "optimal/exact_search.h"
#include "register.h"

namespace shardprop::bindings {
namespace {

// (from bytes, microseconds, microseconds for each byte) of each piece.
using CurveArgument = std::vector<std::tuple<double, double, double>>;
using GroupArgument = std::pair<std::vector<std::uint8_t>, std::vector<CurveArgument>>;

PriceCurve decode_curve(const CurveArgument& argument) {
  std::vector<PricePiece> pieces;
  for (const auto& [from_bytes, fixed_us, us_per_byte] : argument) {
    pieces.push_back({from_bytes, fixed_us, us_per_byte});
  }
  return PriceCurve(std::move(pieces));
}

Group decode_group(const GroupArgument& argument, const CostModel& model) {
  const auto& [mesh_dims, curves] = argument;
  if (curves.size() != kCollectives) {
    throw CostError("Expected a price for each of " + std::to_string(kCollectives) +
                    " collectives, got " + std::to_string(curves.size()) + ".");
  }
  Group group;
  group.mesh_dims = mesh_dims;
  for (const std::uint8_t m : mesh_dims) {
    if (m < model.ndim) group.ranks *= model.size[m];
  }
  for (int kind = 0; kind < kCollectives; ++kind) group.prices[kind] = decode_curve(curves[kind]);
  return group;
}

std::unique_ptr<BoundCostModel> make_cost_model(const std::vector<std::int64_t>& sizes,
                                                const std::vector<GroupArgument>& groups,
                                                double kernel_us, double memory_us_per_byte,
                                                bool all_to_all_gathers, py::object callback) {
  if (sizes.empty() || sizes.size() > kMaxMeshDims) {
    unsupported("mesh with no dims, or more than 8");
  }
  auto bound = std::make_unique<BoundCostModel>();
  CostModel& model = bound->model;
  model.ndim = static_cast<int>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), model.size.begin());
  for (const GroupArgument& group : groups) model.groups.push_back(decode_group(group, model));
  model.kernel_us = kernel_us;
  model.memory_us_per_byte = memory_us_per_byte;
  model.all_to_all_gathers = all_to_all_gathers;
  validate_cost_model(model);
  if (!callback.is_none()) {
    model.callback = [callback](Collective kind, const Group& group, double wire_bytes) {
      py::tuple mesh_dims(group.mesh_dims.size());
      for (std::size_t i = 0; i < group.mesh_dims.size(); ++i) mesh_dims[i] = group.mesh_dims[i];
      return callback(name_of(kind), mesh_dims, group.ranks, static_cast<std::int64_t>(wire_bytes))
          .cast<double>();
    };
  }
  return bound;
}

py::tuple shard_order_of(const Layout& layout) {
  py::list order;
  for (int dim = 0; dim < static_cast<int>(kMaxTensorDims); ++dim) {
    std::array<int, kMaxMeshDims> by{};
    int count = 0;
    for (int m = 0; m < layout.ndim; ++m) {
      const Placement p = layout.placements[m];
      if (!p.is_shard_like() || p.dim != dim) continue;
      by[layout.position[m]] = m;
      ++count;
    }
    if (count == 0) continue;
    py::tuple mesh_dims(count);
    for (int i = 0; i < count; ++i) mesh_dims[i] = by[i];
    order.append(py::make_tuple(dim, mesh_dims));
  }
  return py::tuple(order);
}

// The layouts of a plan between two specs, as Python sees them: (placements, shard order).
class LayoutObjects {
 public:
  LayoutObjects(py::handle src, py::handle dst, Decoder& decoder)
      : src_(src), dst_(dst), decoder_(decoder) {}

  py::tuple operator()(const Layout& layout) {
    py::tuple placements(layout.ndim);
    for (int m = 0; m < layout.ndim; ++m) {
      placements[m] = placement_object(layout.placements[m], src_, dst_, decoder_);
    }
    return py::make_tuple(placements, shard_order_of(layout));
  }

 private:
  py::handle src_, dst_;
  Decoder& decoder_;
};

py::tuple mesh_dims_of(unsigned mask, const CostModel& model) {
  py::list mesh_dims;
  int active = 0;
  for (int m = 0; m < model.ndim; ++m) {
    if (model.size[m] == 1) continue;
    if (mask >> active++ & 1u) mesh_dims.append(m);
  }
  return py::tuple(mesh_dims);
}

py::tuple as_python(const ExactPlan& plan, const CostModel& model, LayoutObjects& objects) {
  py::list steps;
  for (const PlannedStep& step : plan.steps) {
    const PlannedMove& move = step.move;
    const std::int64_t local = picoseconds(move.price) - move.communication_ps;
    steps.append(py::make_tuple(
        name_of(move.kind), mesh_dims_of(move.mask, model), objects(step.before),
        objects(step.after), static_cast<double>(move.communication_ps) * 1e-6,
        static_cast<double>(local) * 1e-6, static_cast<std::int64_t>(move.wire_bytes),
        static_cast<std::int64_t>(move.peak_bytes)));
  }
  return py::make_tuple(plan.found, steps, plan.found ? picoseconds(plan.price) : 0);
}

struct Pair {
  Pair(py::handle src, py::handle dst) : from(decoder.spec(src)), to(decoder.spec(dst)) {}
  Decoder decoder;
  DecodedSpec from, to;
};

py::tuple plan_exactly(const BoundCostModel& bound, py::handle src, py::handle dst,
                       double memory_limit) {
  Pair pair(src, dst);
  const ExactPlan plan = exact_plan(bound.model, pair.from.info, pair.from.layout, pair.to.layout,
                                    memory_limit, &bound.cache);
  LayoutObjects objects(src, dst, pair.decoder);
  return as_python(plan, bound.model, objects);
}

// Microseconds in all and of communication alone, and how many collectives; None: no plan.
py::object price_exactly(const BoundCostModel& bound, py::handle src, py::handle dst,
                         double memory_limit) {
  Pair pair(src, dst);
  const ExactPlan plan = exact_plan(bound.model, pair.from.info, pair.from.layout, pair.to.layout,
                                    memory_limit, &bound.cache);
  if (!plan.found) return py::none();
  std::int64_t communication = 0;
  for (const PlannedStep& step : plan.steps) communication += step.move.communication_ps;
  return py::make_tuple(microseconds(plan.price), static_cast<double>(communication) * 1e-6,
                        collectives(plan.price));
}

// Steps that torch planned: each (mesh dims, placement after it), the shard order following from
// the moves.
py::tuple price_foreign_steps(const BoundCostModel& bound, py::handle src, py::handle dst,
                              py::handle steps) {
  Pair pair(src, dst);
  Layout at = PlanSpace::normalise(pair.from.layout, pair.from.info, bound.model);
  std::vector<ForeignStep> decoded;
  for (const py::handle step : steps) {
    const auto [mesh_dims, after] = step.cast<std::pair<std::vector<std::uint8_t>, py::object>>();
    const Placement placement = pair.decoder.placement(after);
    for (const std::uint8_t m : mesh_dims) {
      if (m >= at.ndim) throw std::invalid_argument("Expected mesh dims of the mesh.");
      at = with_placement(at, m, placement);
    }
    decoded.push_back({mesh_dims, at});
  }
  const ExactPlan plan =
      price_steps(bound.model, pair.from.info, pair.from.layout, pair.to.layout, decoded);
  LayoutObjects objects(src, dst, pair.decoder);
  const py::tuple priced = as_python(plan, bound.model, objects);
  return py::make_tuple(plan.found, priced[1], plan.followed);
}

// Outputs that are weighed: (shape, bytes of an element, and what comes later: the spec that its
// consumer wants, a function from its placements and all of the strategy to microseconds, or None).
std::vector<PricedOutput> decode_outputs(const BoundProblem& bound, py::handle outputs) {
  std::vector<PricedOutput> decoded;
  if (outputs.is_none()) return decoded;
  Decoder decoder = bound.decoder();
  for (const py::handle output : outputs) {
    const auto [shape, itemsize, consumer] =
        output.cast<std::tuple<std::vector<std::int64_t>, std::int64_t, py::object>>();
    PricedOutput weighed;
    weighed.info.shape = shape;
    weighed.info.itemsize = itemsize;
    if (PyCallable_Check(consumer.ptr())) {
      weighed.later_us = [&bound, consumer, position = decoded.size()](const Rows& rows) {
        const py::tuple placements = bound.placements(rows);
        return consumer(placements[position], placements).cast<double>();
      };
    } else if (!consumer.is_none()) {
      weighed.consumer = decoder.spec(consumer).layout;
    }
    decoded.push_back(std::move(weighed));
  }
  return decoded;
}

py::tuple decide_bound(const BoundCostModel& model, double memory_limit, double output_weight,
                       py::handle outputs, const BoundProblem& bound) {
  if (bound.is_symbolic()) unsupported("symbolic shape under policy optimal");
  const Problem& problem = bound.problem();
  if (problem.mesh.ndim != model.model.ndim) {
    unsupported("cost model of another mesh");
  }
  ExactTerms terms{model.model, memory_limit, &model.cache, output_weight, {}};
  if (output_weight != 0.0) terms.outputs = decode_outputs(bound, outputs);
  if (terms.outputs.size() > static_cast<std::size_t>(problem.table.outputs)) {
    throw std::invalid_argument("Expected at most as many weighed outputs as outputs.");
  }
  const ExactDecision exact = decide_exactly(problem, terms);
  return py::make_tuple(bound.answer(exact.decision), exact.output_cost, exact.gap);
}

}  // namespace

void register_exact(py::module_& module) {
  py::class_<BoundCostModel>(module, "CostModel",
                             "What each collective and local work costs on one mesh.")
      .def(py::init(&make_cost_model), py::arg("sizes"), py::arg("groups"), py::arg("kernel_us"),
           py::arg("memory_us_per_byte"), py::arg("all_to_all_gathers"), py::arg("callback"))
      .def_property_readonly("nbytes", [](const BoundCostModel& bound) {
        return bound.cache.bytes();  // of the bounds that were found out under it
      });
  module.def("exact_plan", &plan_exactly, py::arg("model"), py::arg("src"), py::arg("dst"),
             py::arg("memory_limit"));
  module.def("exact_price", &price_exactly, py::arg("model"), py::arg("src"), py::arg("dst"),
             py::arg("memory_limit"));
  module.def("price_steps_of", &price_foreign_steps, py::arg("model"), py::arg("src"),
             py::arg("dst"), py::arg("steps"));
  module.def("decide_exactly", &decide_bound, py::arg("model"), py::arg("memory_limit"),
             py::arg("output_weight"), py::arg("priced_outputs"), py::arg("problem"));
}

}  // namespace shardprop::bindings
