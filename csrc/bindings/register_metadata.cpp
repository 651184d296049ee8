// Closed forms of output metadata for Python: arguments in, TensorMeta out, by the CPython API, for
// this is what a cache miss waits for. Whatever is odd is declined, and never raised.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <vector>

#include "metadata/meta_call.h"
#include "register.h"

namespace py = pybind11;

namespace shardprop::bindings {
namespace {

// What Python told us about torch: set once, then read only. Lives as long as the process.
struct Torch {
  py::object spec_type, meta_type, size_type, declined, device_type, strided, get_default_dtype;
  std::vector<py::object> dtypes;   // in the order of DType
  std::vector<py::object> formats;  // in the order of Format
  py::object tensor_meta = intern("tensor_meta"), mesh = intern("mesh"),
             mesh_device = intern("device_type");

  static py::object intern(const char* name) {
    return py::reinterpret_steal<py::object>(PyUnicode_InternFromString(name));
  }
};
Torch& torch() {
  static Torch* all = new Torch;
  return *all;
}

// Leaves a call from where no false can be returned.
struct Declined {};

std::optional<std::int64_t> as_int(PyObject* object) {
  if (!PyLong_CheckExact(object)) return std::nullopt;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow != 0) return std::nullopt;
  return value;
}

std::optional<std::int64_t> index_of(const std::vector<py::object>& known, PyObject* object) {
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i].ptr() == object) return static_cast<std::int64_t>(i);
  }
  return std::nullopt;
}

DType default_dtype() {
  const auto code = index_of(torch().dtypes, torch().get_default_dtype().ptr());
  if (!code || *code >= kOperandDTypes) throw Declined{};
  return static_cast<DType>(*code);
}

bool is_list(PyObject* object) { return PyTuple_Check(object) || PyList_Check(object); }

py::object attribute(PyObject* object, const py::object& name) {
  PyObject* value = PyObject_GetAttr(object, name.ptr());
  if (value == nullptr) {
    PyErr_Clear();
    throw Declined{};
  }
  return py::reinterpret_steal<py::object>(value);
}

// Sizes of real tensors are far below this, and products of them are checked against it.
constexpr std::int64_t kLargestNumber = std::int64_t{1} << 56;

bool read_dims(PyObject* object, Dims& dims) {
  if (!PyTuple_Check(object)) return false;
  const auto count = PyTuple_GET_SIZE(object);
  if (count > kMaxTensorDims) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const auto value = as_int(PyTuple_GET_ITEM(object, i));
    if (!value || *value < 0 || *value > kLargestNumber) return false;
    dims.push_back(*value);
  }
  return true;
}

// The arguments of one call, decoded.
struct Pools {
  std::vector<Value> values;
  std::vector<TensorMeta> tensors;
  std::vector<std::int64_t> integers;
  std::vector<Value> scalars;
  py::object mesh;  // that of every tensor; not there before the first

  bool tensor(PyObject* spec) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(spec)) != torch().spec_type.ptr()) return false;
    const py::object of_spec = attribute(spec, torch().mesh);
    if (!mesh) {
      mesh = of_spec;
    } else if (!mesh.is(of_spec)) {
      return false;  // of another device perhaps, which would be an error
    }
    const py::object meta = attribute(spec, torch().tensor_meta);
    if (!PyTuple_Check(meta.ptr()) || PyTuple_GET_SIZE(meta.ptr()) != 3) return false;
    TensorMeta& tensor = tensors.emplace_back();
    if (!read_dims(PyTuple_GET_ITEM(meta.ptr(), 0), tensor.shape) ||
        !read_dims(PyTuple_GET_ITEM(meta.ptr(), 1), tensor.stride) ||
        tensor.shape.size() != tensor.stride.size()) {
      return false;
    }
    if (!is_moderate(tensor)) return false;
    const auto dtype = index_of(torch().dtypes, PyTuple_GET_ITEM(meta.ptr(), 2));
    if (!dtype || *dtype >= kOperandDTypes) return false;
    tensor.dtype = static_cast<DType>(*dtype);
    return true;
  }
};

// A Python number; none for any other object.
std::optional<Value> as_number(PyObject* object) {
  Value value;
  if (PyBool_Check(object)) {
    value.kind = kBool;
    value.integer = object == Py_True;
    value.number = static_cast<double>(value.integer);
  } else if (const auto integer = as_int(object)) {
    value.kind = kInt;
    value.integer = *integer;
    value.number = static_cast<double>(*integer);
  } else if (PyFloat_CheckExact(object)) {
    value.kind = kFloat;
    value.number = PyFloat_AS_DOUBLE(object);
  } else {
    return std::nullopt;
  }
  return value;
}

std::optional<Value> as_text(PyObject* object) {
  static constexpr std::pair<const char*, Text> kWords[] = {{"none", Text::kNoneWord},
                                                            {"tanh", Text::kTanh},
                                                            {"trunc", Text::kTrunc},
                                                            {"floor", Text::kFloor}};
  for (const auto& [word, text] : kWords) {
    if (PyUnicode_CompareWithASCIIString(object, word) == 0) {
      Value value;
      value.kind = kText;
      value.integer = static_cast<std::int64_t>(text);
      return value;
    }
  }
  return std::nullopt;
}

template <typename Read>
std::optional<Value> as_list(PyObject* object, ValueKind kind, std::size_t first, Read read) {
  PyObject** items = PySequence_Fast_ITEMS(object);
  const auto count = PySequence_Fast_GET_SIZE(object);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!read(items[i])) return std::nullopt;
  }
  Value value;
  value.kind = kind;
  value.first = static_cast<std::uint32_t>(first);
  value.count = static_cast<std::uint32_t>(count);
  return value;
}

// What an argument says, for a slot that takes the kinds of `mask`; none to decline.
std::optional<Value> decode(PyObject* object, unsigned mask, Pools& pools) {
  Value value;
  if (object == Py_None) {
    return (mask & kNone) != 0 ? std::optional(value) : std::nullopt;
  }
  if (reinterpret_cast<PyObject*>(Py_TYPE(object)) == torch().spec_type.ptr()) {
    value.kind = kTensor;
    value.first = static_cast<std::uint32_t>(pools.tensors.size());
    if ((mask & kTensor) == 0 || !pools.tensor(object)) return std::nullopt;
    return value;
  }
  if (const auto number = as_number(object)) {
    const bool is_false = number->kind == kBool && number->integer == 0;
    const bool fits = (mask & number->kind) != 0 || (is_false && (mask & kFalse) != 0);
    return fits ? number : std::nullopt;
  }
  if (is_list(object)) {
    if ((mask & kIntList) != 0) {
      return as_list(object, kIntList, pools.integers.size(), [&](PyObject* item) {
        const auto integer = as_int(item);
        if (integer) pools.integers.push_back(*integer);
        return integer && *integer >= -kLargestNumber && *integer <= kLargestNumber;
      });
    }
    if ((mask & kTensorList) != 0) {
      return as_list(object, kTensorList, pools.tensors.size(),
                     [&](PyObject* item) { return pools.tensor(item); });
    }
    if ((mask & kScalarList) != 0) {
      return as_list(object, kScalarList, pools.scalars.size(), [&](PyObject* item) {
        const auto number = as_number(item);
        if (number) pools.scalars.push_back(*number);
        return number.has_value();
      });
    }
    return std::nullopt;
  }
  const auto coded = [&](ValueKind kind, std::optional<std::int64_t> code) {
    value.kind = kind;
    value.integer = code.value_or(0);
    return code ? std::optional(value) : std::nullopt;
  };
  if ((mask & kDTypeValue) != 0) {
    const auto code = index_of(torch().dtypes, object);
    return coded(kDTypeValue, code && *code < kOperandDTypes ? code : std::nullopt);
  }
  if ((mask & kFormatValue) != 0) return coded(kFormatValue, index_of(torch().formats, object));
  if ((mask & kText) != 0 && PyUnicode_Check(object)) return as_text(object);
  if ((mask & kLayout) != 0 && object == torch().strided.ptr()) return coded(kLayout, 0);
  if ((mask & kDevice) != 0 &&
      reinterpret_cast<PyObject*>(Py_TYPE(object)) == torch().device_type.ptr()) {
    return coded(kDevice, 0);
  }
  return std::nullopt;
}

py::tuple as_tuple(const Dims& dims) {
  py::tuple all(static_cast<std::size_t>(dims.size()));
  for (int d = 0; d < dims.size(); ++d) {
    PyTuple_SET_ITEM(all.ptr(), d, py::int_(dims[d]).release().ptr());
  }
  return all;
}

py::object as_python(const std::optional<TensorMeta>& meta) {
  if (!meta) return py::none();
  const auto size = py::reinterpret_steal<py::object>(
      PyObject_CallOneArg(torch().size_type.ptr(), as_tuple(meta->shape).ptr()));
  if (!size) throw py::error_already_set();
  py::tuple fields(3);
  const auto& dtype = torch().dtypes[static_cast<std::size_t>(meta->dtype)];
  PyTuple_SET_ITEM(fields.ptr(), 0, py::object(size).release().ptr());
  PyTuple_SET_ITEM(fields.ptr(), 1, py::object(as_tuple(meta->stride)).release().ptr());
  PyTuple_SET_ITEM(fields.ptr(), 2, py::object(dtype).release().ptr());
  // Past the named tuple's own __new__, which is a Python function.
  py::tuple arguments(1);
  PyTuple_SET_ITEM(arguments.ptr(), 0, fields.release().ptr());
  const auto type = reinterpret_cast<PyTypeObject*>(torch().meta_type.ptr());
  PyObject* made = PyTuple_Type.tp_new(type, arguments.ptr(), nullptr);
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

py::object as_python(const Call& call) {
  if (call.container == Container::kOne) return as_python(call.outputs.front());
  py::list all(call.outputs.size());
  for (std::size_t i = 0; i < call.outputs.size(); ++i) all[i] = as_python(call.outputs[i]);
  if (call.container == Container::kList) return all;
  return py::tuple(std::move(all));
}

struct Slot {
  py::object name;
  unsigned mask;
  std::optional<Value> otherwise;  // none: must be given
};

// One op: its family with parameters, and its schema.
class ClosedForm {
 public:
  ClosedForm(const std::string& family, std::vector<std::int64_t> params,
             const std::vector<std::string>& names, const std::vector<unsigned>& masks,
             const py::list& defaults, bool each_element, bool returns_nothing, bool needs_device)
      : family_(find_family(family)),
        params_(std::move(params)),
        each_element_(each_element),
        returns_nothing_(returns_nothing),
        needs_device_(needs_device) {
    if (family_ == nullptr) throw py::key_error("no family of ops is called " + family);
    if (names.size() != masks.size() || names.size() != py::len(defaults)) {
      throw std::invalid_argument("Expected a name, a mask and a default per slot.");
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      Slot& slot = slots_.emplace_back(Slot{Torch::intern(names[i].c_str()), masks[i], {}});
      // A one-element tuple holds the default.
      const py::tuple boxed = py::reinterpret_borrow<py::tuple>(py::object(defaults[i]));
      if (py::len(boxed) == 1) slot.otherwise = decode(py::object(boxed[0]).ptr(), masks[i], own_);
    }
  }

  py::object operator()(const py::tuple& args, const py::dict& kwargs) const {
    try {
      py::object answer = this->answer(args.ptr(), kwargs.ptr());
      return answer ? answer : torch().declined;
    } catch (const Declined&) {
      return torch().declined;
    }
  }

 private:
  // Nothing to decline.
  [[nodiscard]] py::object answer(PyObject* args, PyObject* kwargs) const {
    Pools pools;
    pools.integers = own_.integers;  // the defaults refer to them
    pools.scalars = own_.scalars;
    pools.tensors.reserve(4);
    if (!read(args, kwargs, pools)) return {};
    Call call{pools.values, pools.tensors, pools.integers, pools.scalars,
              params_,      default_dtype, Device::kOther};
    if (needs_device_) call.device = device(pools);
    if (each_element_) return each_element(call);
    if (!shardprop::answer(family_, call)) return {};
    if (returns_nothing_) return py::none();
    return as_python(call);
  }

  bool read(PyObject* args, PyObject* kwargs, Pools& pools) const {
    const auto positional = static_cast<std::size_t>(PyTuple_GET_SIZE(args));
    if (positional > slots_.size()) return false;
    auto named = PyDict_GET_SIZE(kwargs);
    pools.values.reserve(slots_.size());
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const Slot& slot = slots_[i];
      PyObject* object =
          i < positional ? PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i)) : nullptr;
      if (object == nullptr && named > 0) {
        object = PyDict_GetItemWithError(kwargs, slot.name.ptr());
        if (object != nullptr) --named;
      }
      const auto value = object == nullptr ? slot.otherwise : decode(object, slot.mask, pools);
      if (!value) return false;
      pools.values.push_back(*value);
    }
    return named == 0;  // else some name is unknown, or given twice
  }

  static Device device(const Pools& pools) {
    if (!pools.mesh) return Device::kOther;
    const py::object type = attribute(pools.mesh.ptr(), torch().mesh_device);
    if (PyUnicode_CompareWithASCIIString(type.ptr(), "cpu") == 0) return Device::kCpu;
    if (PyUnicode_CompareWithASCIIString(type.ptr(), "cuda") == 0) return Device::kCuda;
    return Device::kOther;
  }

  // A list op: the family on an element of each list at a time.
  [[nodiscard]] py::object each_element(Call& call) const {
    std::optional<std::uint32_t> length;
    for (const Value& value : call.values) {
      if (value.kind != kTensorList && value.kind != kScalarList) continue;
      if (length && *length != value.count) return {};
      length = value.count;
    }
    if (!length || *length == 0) return {};
    std::vector<Value> values(call.values.begin(), call.values.end());
    py::list all(returns_nothing_ ? 0 : *length);
    Call element{values,      call.tensors,       call.integers, call.scalars,
                 call.params, call.default_dtype, call.device};
    for (std::uint32_t i = 0; i < *length; ++i) {
      for (std::size_t s = 0; s < values.size(); ++s) {
        const Value& value = call.values[s];
        if (value.kind == kTensorList) {
          values[s].kind = kTensor;
          values[s].first = value.first + i;
        } else if (value.kind == kScalarList) {
          values[s] = call.scalars[value.first + i];
        }
      }
      element.outputs.clear();
      if (!shardprop::answer(family_, element)) return {};
      if (!returns_nothing_) all[i] = as_python(element.outputs.front());
    }
    if (returns_nothing_) return py::none();
    return all;
  }

  Family family_;
  std::vector<std::int64_t> params_;
  bool each_element_, returns_nothing_, needs_device_;
  std::vector<Slot> slots_;
  Pools own_;
};

void configure_metadata(const py::dict& types, std::vector<py::object> dtypes,
                        std::vector<py::object> formats) {
  if (dtypes.size() != kDTypeNames.size() || formats.size() != kFormatNames.size()) {
    throw std::invalid_argument(
        "Expected the dtypes and memory formats that the core names, in their order.");
  }
  Torch& all = torch();
  all.spec_type = types["DTensorSpec"];
  all.meta_type = types["TensorMeta"];
  all.size_type = types["Size"];
  all.device_type = types["device"];
  all.strided = types["strided"];
  all.declined = types["DECLINED"];
  all.get_default_dtype = types["get_default_dtype"];
  all.dtypes = std::move(dtypes);
  all.formats = std::move(formats);
}

}  // namespace

void register_metadata(py::module_& module) {
  module.def("configure_metadata", &configure_metadata, py::arg("types"), py::arg("dtypes"),
             py::arg("formats"),
             "Tell the core torch's types, dtypes and memory formats. Called once, on import.");
  py::class_<ClosedForm>(module, "ClosedForm", "An op's output metadata from its operands' alone.")
      .def(py::init<const std::string&, std::vector<std::int64_t>, const std::vector<std::string>&,
                    const std::vector<unsigned>&, const py::list&, bool, bool, bool>(),
           py::arg("family"), py::arg("params"), py::arg("names"), py::arg("masks"),
           py::arg("defaults"), py::kw_only(), py::arg("each_element"), py::arg("returns_nothing"),
           py::arg("needs_device"))
      .def("__call__", &ClosedForm::operator(), py::arg("args"), py::arg("kwargs"));
}

}  // namespace shardprop::bindings
