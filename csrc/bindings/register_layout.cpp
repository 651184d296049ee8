// What is asked of the layouts of operands alone.
#include <pybind11/pybind11.h>

#include "decode.h"
#include "register.h"

namespace shardprop::bindings {
namespace {

// What one call's operands say.
class EmptyShards {
 public:
  explicit EmptyShards(py::handle mesh_of) : mesh_of_(mesh_of) {}

  void add(py::handle item) {
    PyObject* object = item.ptr();
    if (reinterpret_cast<PyObject*>(Py_TYPE(object)) == environment().spec_type.ptr()) {
      add_spec(item);
    } else if (PyList_Check(object) || PyTuple_Check(object)) {
      for (const py::handle each : item) add(each);
    }
  }

  [[nodiscard]] bool there_are() const { return there_are_; }
  // Or may some come to be, of an operand that is moved since one is not replicated?
  [[nodiscard]] bool may_come() const { return may_move_ && may_come_; }

 private:
  void add_spec(py::handle object) {
    const DecodedSpec spec = decoder_.spec(object);
    const py::object bound = mesh_of_(spec.mesh);
    const Mesh& mesh = bound.cast<const BoundMesh&>().mesh;
    may_move_ |= !all_replicate(spec.layout);
    int dim = 0;
    for (const std::int64_t size : spec.info.shape) {
      there_are_ |= leaves_empty(spec.layout, mesh, dim++, size);
      may_come_ |= may_leave_empty(mesh, size);
    }
  }

  py::handle mesh_of_;
  Decoder decoder_;
  bool there_are_ = false, may_come_ = false, may_move_ = false;
};

// False, too, of what the core does not model.
bool has_empty_shard(const py::tuple& args, py::handle mesh_of, bool or_may) {
  try {
    EmptyShards found(mesh_of);
    found.add(args);
    return found.there_are() || (or_may && found.may_come());
  } catch (const Unsupported&) {
    return false;
  }
}

}  // namespace

void register_layout(py::module_& module) {
  module.def("has_empty_shard", &has_empty_shard, py::arg("args"), py::arg("mesh_of"),
             py::arg("or_may") = false);
}

}  // namespace shardprop::bindings
