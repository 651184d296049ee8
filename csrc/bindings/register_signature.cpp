// What a question to the core looks like, as bytes: the key under which rows and decisions are
// held.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "decode.h"
#include "register.h"

namespace shardprop::bindings {
namespace {

// Four strings, apart because they answer different questions:
//   visible: what a rule function sees of the arguments, save sizes, strides and floats;
//   layouts: what it does not see of the operands: mesh, placements, shard order;
//   sizes, floats: those.
// Objects count by address, so a key is good for as long as its holder holds them too. Types,
// meshes apart, are singletons.
class Signature {
 public:
  void add(py::handle item) {
    PyObject* object = item.ptr();
    if (object == Py_None || PyBool_Check(object)) {
      tag('O', visible_), put(object, visible_);
    } else if (is_type(item, environment().spec_type)) {
      add_spec(item);
    } else if (PyLong_CheckExact(object)) {
      tag('I', visible_), put(number(object), visible_);
    } else if (PyFloat_CheckExact(object)) {
      tag('F', visible_), put(PyFloat_AS_DOUBLE(object), floats_);
    } else if (PyList_Check(object) || PyTuple_Check(object)) {
      add_sequence(object);
    } else if (PyUnicode_Check(object)) {
      add_text(object);
    } else if (is_singleton(item)) {
      tag('O', visible_), put(object, visible_);
    } else {
      unsupported("argument that is no key");
    }
  }

  void add_named(py::handle name, py::handle value) {
    add_text(name.ptr());
    add(value);
  }

  [[nodiscard]] py::tuple result() const {
    return py::make_tuple(py::bytes(visible_), py::bytes(layouts_), py::bytes(sizes_),
                          py::bytes(floats_));
  }

 private:
  static bool is_type(py::handle object, const py::object& type) {
    return reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) == type.ptr();
  }

  static bool is_singleton(py::handle item) {
    for (const py::object& type : environment().singleton_types) {
      if (is_type(item, type)) return true;
    }
    return false;
  }

  static std::int64_t number(PyObject* object) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) unsupported("integer beyond 64 bits");
    return value;
  }

  static void tag(char kind, std::string& to) { to.push_back(kind); }

  template <class Value>
  static void put(Value value, std::string& to) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  void add_text(PyObject* object) {
    Py_ssize_t length = 0;
    const char* text = PyUnicode_AsUTF8AndSize(object, &length);
    if (text == nullptr) throw py::error_already_set();
    tag('S', visible_), put(length, visible_);
    visible_.append(text, static_cast<std::size_t>(length));
  }

  void add_sequence(PyObject* object) {
    const Py_ssize_t length = PySequence_Fast_GET_SIZE(object);
    tag(PyList_Check(object) ? 'L' : 'T', visible_), put(length, visible_);
    for (Py_ssize_t i = 0; i < length; ++i) add(PySequence_Fast_GET_ITEM(object, i));
  }

  void add_spec(py::handle object) {
    const DecodedSpec spec = decoder_.spec(object);
    const py::tuple meta = py::reinterpret_borrow<py::tuple>(spec.tensor_meta);
    tag('D', visible_), put(PyTuple_GET_ITEM(meta.ptr(), 2), visible_);
    put(spec.info.shape.size(), visible_);
    for (const std::int64_t size : spec.info.shape) put(size, sizes_);
    const py::handle strides = PyTuple_GET_ITEM(meta.ptr(), 1);
    if (!PyTuple_Check(strides.ptr())) unsupported("stride that is no tuple");
    put(PyTuple_GET_SIZE(strides.ptr()), visible_);
    for (const py::handle stride : strides) {
      if (!PyLong_CheckExact(stride.ptr())) unsupported("symbolic stride");
      put(number(stride.ptr()), sizes_);
    }
    put(spec.mesh.ptr(), layouts_);
    put(static_cast<char>(spec.layout.ordered | (spec.strided_is_order << 1)), layouts_);
    for (int m = 0; m < spec.layout.ndim; ++m) {
      const Placement placement = spec.layout.placements[m];
      const bool is_known = !placement.is_partial() || placement.value < kFirstUnknownOp;
      if (placement.identity != 0 || placement.kind == Kind::kOpaque || !is_known) {
        unsupported("placement that is no key");
      }
      put(placement.bits(), layouts_);
      put(spec.layout.position[m], layouts_);
    }
  }

  Decoder decoder_;
  std::string visible_, layouts_, sizes_, floats_;
};

// None where something in the arguments is no key.
py::object signature(const py::tuple& args, const py::dict& kwargs) {
  try {
    Signature signature;
    for (const py::handle item : args) signature.add(item);
    for (const auto& [name, value] : kwargs) signature.add_named(name, value);
    return signature.result();
  } catch (const Unsupported&) {
    return py::none();
  }
}

// The elements of lists of operands, grouped by what prices, rules and metadata can see of them:
// the specs, and of numbers only the type. Per element its group, and per group its first element.
py::tuple group_alike(const std::vector<py::list>& specs, const std::vector<py::list>& numbers) {
  const std::size_t length = specs.empty() ? 0 : specs.front().size();
  for (const auto* lists : {&specs, &numbers}) {
    for (const py::list& items : *lists) {
      if (items.size() != length) throw std::invalid_argument("Expected lists of one length.");
    }
  }
  Decoder decoder;
  std::unordered_map<std::string, std::size_t> known;
  py::list group(length), first;
  for (std::size_t i = 0; i < length; ++i) {
    std::string key;
    for (const py::list& items : specs) {
      decoder.forget_opaque();
      key += decoder.spec_key(items[i], true);
    }
    for (const py::list& items : numbers) {
      const PyTypeObject* type = Py_TYPE(PyList_GET_ITEM(items.ptr(), static_cast<Py_ssize_t>(i)));
      key.append(reinterpret_cast<const char*>(&type), sizeof type);
    }
    const auto [found, is_new] = known.try_emplace(std::move(key), known.size());
    if (is_new) first.append(i);
    group[i] = py::int_(found->second);
  }
  return py::make_tuple(std::move(group), std::move(first));
}

}  // namespace

void register_signature(py::module_& module) {
  module.def("signature", &signature, py::arg("args"), py::arg("kwargs"));
  module.def("group_alike", &group_alike, py::arg("specs"), py::arg("numbers"));
}

}  // namespace shardprop::bindings
