// Methods that return what an object holds under a name, or its hash, without a frame of Python.
//
// torch's dispatcher calls half a dozen such methods at each DTensor op.
#include <Python.h>
#include <structmember.h>

#include "register.h"

namespace py = pybind11;

namespace shardprop::bindings {
namespace {

struct Method {
  PyObject_HEAD;
  vectorcallfunc call;
  PyObject* otherwise;
  PyObject* name;
  bool is_hashed;
};

Method* as_method(PyObject* self) { return reinterpret_cast<Method*>(self); }

PyObject* call(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  const Method& method = *as_method(self);
  if (PyVectorcall_NARGS(count) == 1 && names == nullptr) {
    PyObject* value = PyObject_GetAttr(args[0], method.name);
    if (value == nullptr) {
      if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return nullptr;
      PyErr_Clear();
    } else if (value != Py_None) {
      if (!method.is_hashed) return value;
      const Py_hash_t hash = PyObject_Hash(value);
      Py_DECREF(value);
      return hash == -1 ? nullptr : PyLong_FromSsize_t(hash);
    } else {
      Py_DECREF(value);
    }
  }
  return PyObject_Vectorcall(method.otherwise, args, count, names);
}

PyObject* bind(PyObject* self, PyObject* instance, PyObject*) {
  return instance == nullptr ? Py_NewRef(self) : PyMethod_New(self, instance);
}

// What the type says of itself, and the function of itself.
template <const char* name>
PyObject* of_function(PyObject* self, void*) {
  return PyObject_GetAttrString(as_method(self)->otherwise, name);
}

constexpr char doc[] = "__doc__";
constexpr char home[] = "__module__";

// Its name, and what else one may ask of a function.
PyObject* attribute(PyObject* self, PyObject* name) {
  PyObject* value = PyObject_GenericGetAttr(self, name);
  if (value != nullptr || PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return value;
  PyErr_Clear();
  return PyObject_GetAttr(as_method(self)->otherwise, name);
}

PyObject* make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"otherwise", "name", "is_hashed", nullptr};
  PyObject* otherwise = nullptr;
  PyObject* name = nullptr;
  int is_hashed = 0;
  if (PyArg_ParseTupleAndKeywords(args, kwargs, "OUp", const_cast<char**>(names), &otherwise, &name,
                                  &is_hashed) == 0)
    return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  Py_INCREF(name);
  PyUnicode_InternInPlace(&name);
  as_method(self)->call = call;
  as_method(self)->otherwise = Py_NewRef(otherwise);
  as_method(self)->name = name;
  as_method(self)->is_hashed = is_hashed != 0;
  return self;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_method(self)->otherwise);
  return 0;
}

int clear_references(PyObject* self) {
  Py_CLEAR(as_method(self)->otherwise);
  return 0;
}

void destroy(PyObject* self) {
  PyObject_GC_UnTrack(self);
  PyTypeObject* type = Py_TYPE(self);
  Py_CLEAR(as_method(self)->otherwise);
  Py_CLEAR(as_method(self)->name);
  type->tp_free(self);
  Py_DECREF(type);
}

template <class Function>
void* slot_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

PyObject* make_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(Method, call), READONLY, nullptr},
      {"__wrapped__", T_OBJECT, offsetof(Method, otherwise), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr},
  };
  static PyGetSetDef attributes[] = {
      {doc, of_function<doc>, nullptr, nullptr, nullptr},
      {home, of_function<home>, nullptr, nullptr, nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr},
  };
  static PyType_Slot slots[] = {
      {Py_tp_new, slot_of(make)},
      {Py_tp_call, slot_of(PyVectorcall_Call)},
      {Py_tp_descr_get, slot_of(bind)},
      {Py_tp_getattro, slot_of(attribute)},
      {Py_tp_members, members},
      {Py_tp_getset, attributes},
      {Py_tp_traverse, slot_of(traverse)},
      {Py_tp_clear, slot_of(clear_references)},
      {Py_tp_dealloc, slot_of(destroy)},
      {0, nullptr},
  };
  static PyType_Spec spec = {"shardprop._core.HeldValue", sizeof(Method), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                 Py_TPFLAGS_METHOD_DESCRIPTOR,
                             slots};
  return PyType_FromSpec(&spec);
}

}  // namespace

void register_held_value(py::module_& module) {
  module.attr("HeldValue") = py::reinterpret_steal<py::object>(make_type());
}

}  // namespace shardprop::bindings
