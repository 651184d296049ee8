#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <span>

#include "decode.h"
#include "layout/set_order.h"
#include "register.h"
#include "torch_plan/greedy.h"
#include "torch_plan/redistribute.h"
#include "torch_plan/transition.h"

namespace shardprop::bindings {
namespace {

// A shard of a tensor dim that is not there has a price in torch, but no plan.
void refuse_shards_beyond(const DecodedSpec& spec) {
  for (int m = 0; m < spec.layout.ndim; ++m) {
    const Placement p = spec.layout.placements[m];
    if (p.is_shard_like() && p.dim >= spec.info.shape.size()) {
      unsupported("shard dim beyond the tensor's");
    }
  }
}

// Status, whether it is by graph, and steps; `shape` makes a Python object of a step's shapes.
template <typename Shape>
py::tuple plan_at(std::span<const std::int64_t> coordinates, const BoundMesh& mesh, py::handle src,
                  py::handle dst, bool force_graph, Shape&& shape) {
  if (!mesh.member) unsupported("rank outside the mesh");
  Decoder decoder;
  const DecodedSpec from = decoder.spec(src), to = decoder.spec(dst);
  refuse_shards_beyond(from);
  refuse_shards_beyond(to);
  const Plan plan = plan_redistribute(from.layout, to.layout, mesh.mesh, from.info, coordinates,
                                      force_graph, environment().dialect, decoder.op_hashes());
  py::list steps;
  for (const Move& move : plan.moves) {
    steps.append(py::make_tuple(move.mesh_dim, placement_object(move.from, src, dst, decoder),
                                placement_object(move.to, src, dst, decoder),
                                shape(move.logical_shapes)));
  }
  return py::make_tuple(static_cast<int>(plan.status), plan.by_graph, steps);
}

py::tuple plan(const BoundMesh& mesh, py::handle src, py::handle dst, bool force_graph) {
  return plan_at(mesh.coordinate, mesh, src, dst, force_graph,
                 [](const std::vector<std::int64_t>& shape) -> const auto& { return shape; });
}

// `plan` for several ranks at once: the shape of a step is a list of theirs.
py::tuple plan_for_ranks(const BoundMesh& mesh,
                         const std::vector<std::vector<std::int64_t>>& coordinates, py::handle src,
                         py::handle dst, bool force_graph) {
  if (coordinates.empty()) throw std::invalid_argument("Expected a coordinate at least.");
  std::vector<std::int64_t> joined;
  for (const auto& each : coordinates) {
    if (each.size() != static_cast<std::size_t>(mesh.mesh.ndim)) {
      throw std::invalid_argument("Expected a coordinate per mesh dim.");
    }
    joined.insert(joined.end(), each.begin(), each.end());
  }
  return plan_at(joined, mesh, src, dst, force_graph, [&](const std::vector<std::int64_t>& shapes) {
    const std::size_t dims = shapes.size() / coordinates.size();
    py::list of_ranks;
    for (auto at = shapes.begin(); of_ranks.size() < coordinates.size(); at += dims) {
      of_ranks.append(std::vector<std::int64_t>(at, at + dims));
    }
    return of_ranks;
  });
}

// The steps of torch's greedy plan, which does not look at sizes: for a price as an expression. The
// price itself where no plan is needed for it; None where torch would plan on its graph.
py::object price_steps(const BoundMesh& mesh, py::handle src, py::handle dst, bool force_graph) {
  struct Steps {
    py::tuple from, to;
    const Layout &src, &dst;
    py::list steps = py::list();

    void open(int) {}
    void either(int, Placement, Placement) {}
    void step(int m, Placement before, Placement after) {
      const auto object = [m](Placement p, const py::tuple& own, const Layout& layout) {
        return p == layout.placements[m] ? py::object(own[m]) : environment().replicate;
      };
      steps.append(py::make_tuple(m, object(before, from, src), object(after, to, dst)));
    }
  };
  Decoder decoder;
  const DecodedSpec from = decoder.spec(src, Sizes::kSymbolic);
  const DecodedSpec to = decoder.spec(dst, Sizes::kSymbolic);
  if (const auto known = cost_without_plan(from.layout, to.layout, mesh.member)) {
    return py::float_(*known);
  }
  if (needs_graph(from.layout, to.layout, force_graph)) return py::none();
  Steps visitor{src.attr("placements"), dst.attr("placements"), from.layout, to.layout};
  walk_greedy(from.layout, to.layout.placements.data(), 0, num_shards(from.layout, mesh.mesh),
              visitor);
  return visitor.steps;
}

// The planners of torch that live through one decision: prices in the order in which they are asked
// for, with the history that torch's planners would have gathered since the decision began.
class History {
 public:
  // Microseconds, or None where torch's planner asserts.
  py::object cost(const BoundMesh& mesh, py::handle src, py::handle dst, bool force_graph) {
    Decoder decoder;
    const DecodedSpec from = decoder.spec(src), to = decoder.spec(dst);
    if (const auto known = cost_without_plan(from.layout, to.layout, mesh.member)) {
      return py::float_(*known);
    }
    if (!needs_graph(from.layout, to.layout, force_graph)) {
      return py::float_(greedy_cost(from.layout, to.layout, mesh.mesh, from.info.bytes()));
    }
    for (const Priced& priced : priced_) {
      if (priced.src == from.layout && priced.dst == to.layout &&
          priced.meta.equal(from.tensor_meta) && priced.mesh == &mesh) {
        return priced.cost;
      }
    }
    const auto price = planner(mesh, from, decoder).price(from.layout, to.layout);
    const py::object cost = price ? py::object(py::float_(*price)) : py::object(py::none());
    priced_.push_back({from.layout, to.layout, from.tensor_meta, &mesh, cost});
    return cost;
  }

 private:
  struct Planner {
    py::object meta;
    const BoundMesh* mesh;
    std::vector<std::uint64_t> op_hashes;
    std::unique_ptr<GraphPlanner> planner;
  };
  struct Priced {
    Layout src, dst;
    py::object meta;
    const BoundMesh* mesh;
    py::object cost;
  };

  GraphPlanner& planner(const BoundMesh& mesh, const DecodedSpec& from, const Decoder& decoder) {
    const auto hashes = decoder.op_hashes();
    if (hashes.size() != environment().reduce_op_hashes.size()) {
      unsupported("reduce op unknown to torch in a planned redistribution");
    }
    for (const auto& known : planners_) {
      if (known.mesh == &mesh && known.meta.equal(from.tensor_meta)) return *known.planner;
    }
    planners_.push_back({from.tensor_meta, &mesh, {}, nullptr});
    planners_.back().planner = std::make_unique<GraphPlanner>(
        mesh.mesh, from.info, environment().dialect, environment().reduce_op_hashes);
    return *planners_.back().planner;
  }

  std::vector<Planner> planners_;
  std::vector<Priced> priced_;
};

std::vector<int> set_order(const std::vector<std::uint64_t>& hashes) {
  PySetOrder set;
  for (const auto hash : hashes) set.insert(hash);
  return set.order();
}

}  // namespace

void register_redistribute(py::module_& module) {
  py::class_<BoundMesh>(module, "Mesh", "A device mesh as the cost model sees it.")
      .def(py::init([](py::handle sizes, py::handle bandwidth, py::handle latency,
                       std::optional<std::vector<std::int64_t>> coordinate) {
             const Mesh mesh = decode_mesh(sizes, bandwidth, latency);
             if (coordinate && coordinate->size() != static_cast<std::size_t>(mesh.ndim)) {
               throw std::invalid_argument("Expected a coordinate per mesh dim.");
             }
             return BoundMesh{mesh, coordinate.has_value(),
                              coordinate.value_or(std::vector<std::int64_t>{})};
           }),
           py::arg("sizes"), py::arg("bandwidth"), py::arg("latency"), py::arg("coordinate"))
      .def_readonly("member", &BoundMesh::member)
      .def_property_readonly("sizes",
                             [](const BoundMesh& bound) {
                               py::tuple sizes(bound.mesh.ndim);
                               for (int m = 0; m < bound.mesh.ndim; ++m)
                                 sizes[m] = bound.mesh.size[m];
                               return sizes;
                             })
      .def_property_readonly("key", [](const BoundMesh& bound) {
        // All that a plan depends on, so that equal meshes share plans whatever object they are.
        std::string key;
        const auto add = [&key](auto value) {
          key.append(reinterpret_cast<const char*>(&value), sizeof value);
        };
        for (int m = 0; m < bound.mesh.ndim; ++m) {
          add(bound.mesh.size[m]);
          add(bound.mesh.bandwidth[m]);
          add(bound.mesh.latency[m]);
          add(bound.member ? bound.coordinate[m] : -1);
        }
        return py::bytes(key);
      });
  py::class_<History>(module, "History",
                      "torch's graph planners, for as long as one decision takes.")
      .def(py::init<>())
      .def("cost", &History::cost, py::arg("mesh"), py::arg("src"), py::arg("dst"),
           py::arg("force_graph"));
  module.def("plan", &plan, py::arg("mesh"), py::arg("src"), py::arg("dst"),
             py::arg("force_graph"));
  module.def("plan_for_ranks", &plan_for_ranks, py::arg("mesh"), py::arg("coordinates"),
             py::arg("src"), py::arg("dst"), py::arg("force_graph"));
  module.def("price_steps", &price_steps, py::arg("mesh"), py::arg("src"), py::arg("dst"),
             py::arg("force_graph"));
  module.def(
      "spec_key",
      [](py::handle spec, bool by_address) {
        return py::bytes(Decoder().spec_key(spec, by_address));
      },
      py::arg("spec"), py::arg("by_address") = false);
  module.def("set_order", &set_order, py::arg("hashes"));
  module.def("hash_int_pair", &hash_int_pair, py::arg("first"), py::arg("second"));
}

}  // namespace shardprop::bindings
