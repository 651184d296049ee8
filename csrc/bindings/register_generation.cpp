// A number that says which decisions a thread may still use: the process's, and each thread's.
//
// torch keeps decisions per thread, and only a thread itself can clear its own. So a change begins
// a new generation, and each thread clears its cache when it sees that it is behind: torch's
// dispatcher reads one attribute at the start of every DTensor op, and that attribute is a
// GenerationSlot.
#include <atomic>
#include <cstdint>

#include "register.h"

namespace py = pybind11;

namespace shardprop::bindings {
namespace {

// A new thread is behind (0), so it comes to know what it decides under.
std::atomic<std::uint64_t> generation_of_process{1};
constinit thread_local std::uint64_t generation_of_thread = 0;

// A data descriptor: the value is in the instance's __dict__, as if there were no descriptor.
struct Slot {
  PyObject_HEAD;
  PyObject* name;
  PyObject* clear;
};

Slot* as_slot(PyObject* self) { return reinterpret_cast<Slot*>(self); }

// False with an exception set. The generation is read before the thread clears its cache: what
// changes meanwhile leaves the thread behind.
bool catch_up(PyObject* self) {
  const std::uint64_t now = generation_of_process.load();
  PyObject* cleared = PyObject_CallNoArgs(as_slot(self)->clear);
  if (cleared == nullptr) return false;
  if (cleared == Py_True) generation_of_thread = now;
  Py_DECREF(cleared);
  return true;
}

PyObject* no_attribute(PyObject* self, PyObject* instance) {
  PyErr_Format(PyExc_AttributeError, "'%.100s' object has no attribute '%U'",
               Py_TYPE(instance)->tp_name, as_slot(self)->name);
  return nullptr;
}

PyObject* get(PyObject* self, PyObject* instance, PyObject*) {
  if (instance == nullptr) return Py_NewRef(self);
  if (generation_of_thread != generation_of_process.load(std::memory_order_acquire) &&
      !catch_up(self))
    return nullptr;
  PyObject* values = PyObject_GenericGetDict(instance, nullptr);
  if (values == nullptr) return nullptr;
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* value = nullptr;
  PyDict_GetItemRef(values, as_slot(self)->name, &value);
#else
  PyObject* value = Py_XNewRef(PyDict_GetItemWithError(values, as_slot(self)->name));
#endif
  Py_DECREF(values);
  if (value == nullptr && !PyErr_Occurred()) return no_attribute(self, instance);
  return value;
}

int set(PyObject* self, PyObject* instance, PyObject* value) {
  PyObject* values = PyObject_GenericGetDict(instance, nullptr);
  if (values == nullptr) return -1;
  const int failed = value == nullptr ? PyDict_DelItem(values, as_slot(self)->name)
                                      : PyDict_SetItem(values, as_slot(self)->name, value);
  Py_DECREF(values);
  if (failed != 0 && value == nullptr && PyErr_ExceptionMatches(PyExc_KeyError) != 0) {
    PyErr_Clear();
    no_attribute(self, instance);
  }
  return failed;
}

PyObject* make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"name", "clear", nullptr};
  PyObject* name = nullptr;
  PyObject* clear = nullptr;
  if (PyArg_ParseTupleAndKeywords(args, kwargs, "UO", const_cast<char**>(names), &name, &clear) ==
      0)
    return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  Py_INCREF(name);
  PyUnicode_InternInPlace(&name);
  as_slot(self)->name = name;
  as_slot(self)->clear = Py_NewRef(clear);
  return self;
}

PyObject* catch_up_now(PyObject* self, PyObject*) {
  if (!catch_up(self)) return nullptr;
  Py_RETURN_NONE;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_slot(self)->clear);
  return 0;
}

int clear_references(PyObject* self) {
  Py_CLEAR(as_slot(self)->clear);
  return 0;
}

void destroy(PyObject* self) {
  PyObject_GC_UnTrack(self);
  PyTypeObject* type = Py_TYPE(self);
  Py_CLEAR(as_slot(self)->clear);
  Py_CLEAR(as_slot(self)->name);
  type->tp_free(self);
  Py_DECREF(type);
}

template <class Function>
void* slot_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

PyObject* make_type() {
  static PyMethodDef methods[] = {
      {"catch_up", catch_up_now, METH_NOARGS,
       "catch_up(self) -> None\n\nAs at the start of an op in a thread that is behind."},
      {nullptr, nullptr, 0, nullptr},
  };
  static const char* doc =
      "An attribute whose value is in the instance. A thread that reads it and is behind calls "
      "clear(), which returns whether it cleared the thread's decisions.";
  static PyType_Slot slots[] = {
      {Py_tp_doc, const_cast<char*>(doc)},
      {Py_tp_new, slot_of(make)},
      {Py_tp_descr_get, slot_of(get)},
      {Py_tp_descr_set, slot_of(set)},
      {Py_tp_methods, methods},
      {Py_tp_traverse, slot_of(traverse)},
      {Py_tp_clear, slot_of(clear_references)},
      {Py_tp_dealloc, slot_of(destroy)},
      {0, nullptr},
  };
  static PyType_Spec spec = {"shardprop._core.GenerationSlot", sizeof(Slot), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
  return PyType_FromSpec(&spec);
}

}  // namespace

void register_generation(py::module_& module) {
  module.attr("GenerationSlot") = py::reinterpret_steal<py::object>(make_type());
  module.def(
      "begin_generation", [] { ++generation_of_process; },
      "From now on every thread is behind, until it has cleared its decisions.");
  module.def(
      "fall_behind", [] { generation_of_thread = 0; },
      "This thread is behind: what it decides now does not go with what it decided before.");
}

}  // namespace shardprop::bindings
