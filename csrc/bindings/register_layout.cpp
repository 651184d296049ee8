// What is asked of the layouts of operands alone.
#include <pybind11/pybind11.h>

#include <algorithm>

#include "decode.h"
#include "register.h"

namespace shardprop::bindings {
namespace {

class EmptyShards {
 public:
  explicit EmptyShards(py::handle mesh_of) : mesh_of_(mesh_of) {}

  [[nodiscard]] bool among(py::handle item) {
    PyObject* object = item.ptr();
    if (reinterpret_cast<PyObject*>(Py_TYPE(object)) == environment().spec_type.ptr()) {
      return of(item);
    }
    if (!PyList_Check(object) && !PyTuple_Check(object)) return false;
    return std::any_of(item.begin(), item.end(), [this](py::handle x) { return among(x); });
  }

 private:
  bool of(py::handle object) {
    const DecodedSpec spec = decoder_.spec(object);
    std::uint32_t cut = 0;  // tensor dims, as bits
    for (int m = 0; m < spec.layout.ndim; ++m) {
      const Placement placement = spec.layout.placements[m];
      if (placement.is_shard_like()) cut |= 1u << placement.dim;
    }
    if (cut == 0) return false;
    const py::object bound = mesh_of_(spec.mesh);
    const Mesh& mesh = bound.cast<const BoundMesh&>().mesh;
    for (std::size_t dim = 0; dim < spec.info.shape.size(); ++dim) {
      const bool is_cut = (cut >> dim & 1u) != 0;
      if (is_cut && leaves_empty(spec.layout, mesh, static_cast<int>(dim), spec.info.shape[dim])) {
        return true;
      }
    }
    return false;
  }

  py::handle mesh_of_;
  Decoder decoder_;
};

// False, too, of what the core does not model.
bool has_empty_shard(const py::tuple& args, py::handle mesh_of) {
  try {
    return EmptyShards(mesh_of).among(args);
  } catch (const Unsupported&) {
    return false;
  }
}

}  // namespace

void register_layout(py::module_& module) {
  module.def("has_empty_shard", &has_empty_shard, py::arg("args"), py::arg("mesh_of"));
}

}  // namespace shardprop::bindings
