// Where a decision holds (region.h), asked with the sizes of specs as Python has them.
#include <pybind11/pybind11.h>

#include "bound_problem.h"
#include "register.h"
#include "search/region.h"
#include "search/search.h"

namespace shardprop::bindings {
namespace {

// Adds the sizes of a spec, straight from torch.Size: a look-up is to cost less than decoding.
// False: other than so many ints.
bool read_sizes(py::handle spec, int tensor_dims, std::int64_t*& next) {
  static const py::handle tensor_meta = PyUnicode_InternFromString("tensor_meta");
  const auto meta =
      py::reinterpret_steal<py::object>(PyObject_GetAttr(spec.ptr(), tensor_meta.ptr()));
  if (!meta) throw py::error_already_set();
  // TensorMeta is a named tuple, and its first field the shape.
  if (!PyTuple_Check(meta.ptr()) || PyTuple_GET_SIZE(meta.ptr()) == 0) return false;
  PyObject* shape = PyTuple_GET_ITEM(meta.ptr(), 0);
  if (!PyTuple_Check(shape) || PyTuple_GET_SIZE(shape) != tensor_dims) return false;
  for (int d = 0; d < tensor_dims; ++d) {
    PyObject* size = PyTuple_GET_ITEM(shape, d);
    if (!PyLong_CheckExact(size)) return false;
    int overflow = 0;
    *next++ = PyLong_AsLongLongAndOverflow(size, &overflow);
    if (overflow != 0) return false;
  }
  return true;
}

class BoundRegion {
 public:
  explicit BoundRegion(Region region) : region_(std::move(region)) {}

  // `specs`: a list or tuple of one spec per operand.
  [[nodiscard]] bool contains(py::handle specs) const {
    const std::span<const int> tensor_dims = region_.tensor_dims();
    if (!PyList_Check(specs.ptr()) && !PyTuple_Check(specs.ptr())) {
      throw py::type_error("Expected a list or tuple of specs.");
    }
    const auto operands = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(specs.ptr()));
    if (operands != tensor_dims.size()) return false;
    std::array<std::int64_t, kMaxRegionOperands * kMaxTensorDims> sizes;
    std::int64_t* end = sizes.data();
    for (std::size_t i = 0; i < operands; ++i) {
      // A list may change meanwhile: reading an attribute may run Python, and so may other threads.
      const auto spec = py::reinterpret_steal<py::object>(
          PySequence_GetItem(specs.ptr(), static_cast<Py_ssize_t>(i)));
      if (!spec) throw py::error_already_set();
      if (!read_sizes(spec, tensor_dims[i], end)) return false;
    }
    return region_.contains({sizes.data(), static_cast<std::size_t>(end - sizes.data())});
  }

  [[nodiscard]] std::size_t bytes() const {
    return sizeof *this - sizeof region_ + region_.bytes();
  }

 private:
  Region region_;
};

py::object region_bound(const BoundProblem& bound) {
  // What has no region is not even decided for it.
  const Problem& problem = bound.problem();
  if (bound.is_symbolic() || bound.has_history() || problem.accepts) return py::none();
  auto region = region_of(problem, decide(problem));
  if (!region) return py::none();
  return py::cast(BoundRegion(std::move(*region)));
}

}  // namespace

void register_region(py::module_& module) {
  py::class_<BoundRegion>(module, "Region")
      .def("contains", &BoundRegion::contains, py::arg("specs"))
      .def_property_readonly("nbytes", &BoundRegion::bytes);
  module.def("region", &region_bound, py::arg("problem"));
}

}  // namespace shardprop::bindings
