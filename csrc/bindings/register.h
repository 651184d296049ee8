// One register_x.cpp per concept; module.cpp calls them.
#pragma once

#include <pybind11/pybind11.h>

#include "layout/mesh.h"

namespace shardprop::bindings {

// A mesh as Python holds it: the core's, and this rank's place in it.
struct BoundMesh {
  Mesh mesh;
  bool member;
  std::vector<std::int64_t> coordinate;  // empty where the rank is not a member
};

void register_build(pybind11::module_& module);
void register_decide(pybind11::module_& module);
void register_exact(pybind11::module_& module);
void register_generation(pybind11::module_& module);
void register_graph(pybind11::module_& module);
void register_layout(pybind11::module_& module);
void register_metadata(pybind11::module_& module);
void register_names(pybind11::module_& module);
void register_notation(pybind11::module_& module);
void register_problem(pybind11::module_& module);
void register_ranking(pybind11::module_& module);
void register_redistribute(pybind11::module_& module);
void register_signature(pybind11::module_& module);
void register_region(pybind11::module_& module);
void register_strategies(pybind11::module_& module);

}  // namespace shardprop::bindings
