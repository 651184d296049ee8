// What is asked of the layouts of operands alone.
#include <pybind11/pybind11.h>

#include <cstdint>

#include "decode.h"
#include "register.h"

namespace shardprop::bindings {
namespace {

py::object attribute(py::handle object, PyObject* name) {
  PyObject* value = PyObject_GetAttr(object.ptr(), name);
  if (value == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(value);
}

// The mesh that was asked for last in this thread: to ask Python takes as long as all the rest.
struct LastMesh {
  PyObject* reference = nullptr;  // weak; owned, and left behind where a thread ends
  Mesh mesh;
  std::int64_t ranks = 1;

  void look_up(py::handle wanted, py::handle mesh_of) {
    if (reference != nullptr && PyWeakref_GetObject(reference) == wanted.ptr()) return;
    const py::object bound = mesh_of(wanted);
    PyObject* found = PyWeakref_NewRef(wanted.ptr(), nullptr);
    if (found == nullptr) throw py::error_already_set();
    Py_XDECREF(reference);
    reference = found;
    mesh = bound.cast<const BoundMesh&>().mesh;
    ranks = 1;
    for (int m = 0; m < mesh.ndim; ++m) ranks *= mesh.size[m];
  }
};

// What one call's operands say.
class EmptyShards {
 public:
  EmptyShards(py::handle mesh_of, bool or_may) : mesh_of_(mesh_of), or_may_(or_may) {}

  [[nodiscard]] bool among(py::handle item) {
    PyObject* object = item.ptr();
    if (reinterpret_cast<PyObject*>(Py_TYPE(object)) == environment().spec_type.ptr()) {
      return !leaves_something(item) && of(item);
    }
    if (!PyList_Check(object) && !PyTuple_Check(object)) return false;
    for (const py::handle each : item) {
      if (among(each)) return true;
    }
    return false;
  }

 private:
  // A glance at the sizes, which mostly tells that each way to shard them leaves all something. A
  // strided shard cuts into more chunks than there are ranks, and is looked at closely.
  bool leaves_something(py::handle spec) {
    static PyObject *const mesh = PyUnicode_InternFromString("mesh"),
                           *const placements = PyUnicode_InternFromString("placements"),
                           *const tensor_meta = PyUnicode_InternFromString("tensor_meta");
    last_.look_up(attribute(spec, mesh), mesh_of_);
    for (const py::handle placement : attribute(spec, placements)) {
      if (is_strided(placement)) return false;
    }
    const py::object meta = attribute(spec, tensor_meta);
    if (!PyTuple_Check(meta.ptr()) || PyTuple_GET_SIZE(meta.ptr()) == 0) return false;
    PyObject* shape = PyTuple_GET_ITEM(meta.ptr(), 0);
    if (!PyTuple_Check(shape)) return false;
    const std::int64_t ranks = last_.ranks;
    for (Py_ssize_t d = 0; d < PyTuple_GET_SIZE(shape); ++d) {
      PyObject* object = PyTuple_GET_ITEM(shape, d);
      if (!PyLong_CheckExact(object)) return false;
      const long long size = PyLong_AsLongLong(object);
      // So many chunks of ceil(size / ranks) are all of something, and so are fewer.
      if (size <= (ranks - 1) * (ranks - 1) && size % ranks != 0) return false;
    }
    return true;
  }

  static bool is_strided(py::handle placement) {
    const auto* type = reinterpret_cast<PyObject*>(Py_TYPE(placement.ptr()));
    return type == environment().strided_shard_type.ptr();
  }

  bool of(py::handle object) {
    const DecodedSpec spec = decoder_.spec(object);
    int dim = 0;
    for (const std::int64_t size : spec.info.shape) {
      if (leaves_empty(spec.layout, last_.mesh, dim++, size)) return true;
      if (or_may_ && may_leave_empty(last_.mesh, size)) return true;
    }
    return false;
  }

  static thread_local LastMesh last_;
  py::handle mesh_of_;
  bool or_may_;
  Decoder decoder_;
};

thread_local LastMesh EmptyShards::last_;

// False, too, of what the core does not model.
bool has_empty_shard(const py::tuple& args, py::handle mesh_of, bool or_may) {
  try {
    return EmptyShards(mesh_of, or_may).among(args);
  } catch (const Unsupported&) {
    return false;
  }
}

// Do the mesh dims of an entry of a shard order cut in another order than from left to right?
bool descends(py::handle entry) {
  if (!PyTuple_Check(entry.ptr()) || PyTuple_GET_SIZE(entry.ptr()) != 2) return false;
  PyObject* mesh_dims = PyTuple_GET_ITEM(entry.ptr(), 1);
  if (!PyTuple_Check(mesh_dims)) return false;
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(mesh_dims); ++i) {
    const int ascends = PyObject_RichCompareBool(PyTuple_GET_ITEM(mesh_dims, i - 1),
                                                 PyTuple_GET_ITEM(mesh_dims, i), Py_LT);
    if (ascends < 0) throw py::error_already_set();
    if (ascends == 0) return true;
  }
  return false;
}

// Is a tensor among the arguments in another shard order than the default one?
bool has_own_order(py::handle item) {
  static PyObject* const shard_order = PyUnicode_InternFromString("shard_order");
  PyObject* object = item.ptr();
  if (reinterpret_cast<PyObject*>(Py_TYPE(object)) == environment().spec_type.ptr()) {
    const py::object order = attribute(item, shard_order);
    if (!PyTuple_Check(order.ptr())) return false;
    for (const py::handle entry : order) {
      if (descends(entry)) return true;
    }
    return false;
  }
  if (!PyList_Check(object) && !PyTuple_Check(object)) return false;
  for (const py::handle each : item) {
    if (has_own_order(each)) return true;
  }
  return false;
}

}  // namespace

void register_layout(py::module_& module) {
  module.def("has_empty_shard", &has_empty_shard, py::arg("args"), py::arg("mesh_of"),
             py::arg("or_may") = false);
  module.def("has_own_order", &has_own_order, py::arg("args"));
}

}  // namespace shardprop::bindings
