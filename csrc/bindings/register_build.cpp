// What this extension was built from and how, for `shardprop.build_config()` and the doctor.
#include <pybind11/pybind11.h>

#include <string>

#include "register.h"

// Given by CMakeLists.txt; another build may do without.
#ifndef SHARDPROP_VERSION
#define SHARDPROP_VERSION ""
#endif
#ifndef SHARDPROP_BUILD_TYPE
#define SHARDPROP_BUILD_TYPE ""
#endif

namespace py = pybind11;

namespace shardprop::bindings {
namespace {

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#elif defined(__GNUC__)
  return "gcc " __VERSION__;
#else
  return "unknown";
#endif
}

std::string pybind11_version() {
  return std::to_string(PYBIND11_VERSION_MAJOR) + "." + std::to_string(PYBIND11_VERSION_MINOR) +
         "." + PYBIND11_TOSTRING(PYBIND11_VERSION_PATCH);
}

constexpr bool assertions() {
#ifdef NDEBUG
  return false;
#else
  return true;
#endif
}

constexpr bool free_threaded() {
#ifdef Py_GIL_DISABLED
  return true;
#else
  return false;
#endif
}

py::dict build_config() {
  py::dict found;
  found["version"] = SHARDPROP_VERSION;
  found["build_type"] = SHARDPROP_BUILD_TYPE;
  found["assertions"] = assertions();
  found["compiler"] = compiler();
  found["cxx_standard"] = static_cast<long>(__cplusplus);
  found["pybind11"] = pybind11_version();
  found["python"] = PY_VERSION;
  found["free_threaded"] = free_threaded();
  return found;
}

}  // namespace

void register_build(py::module_& module) {
  module.def("build_config", &build_config,
             "What the extension was built from: versions, compiler, build type.");
}

}  // namespace shardprop::bindings
