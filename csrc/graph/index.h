// Numbers of variables, clusters and labels are ints; places in vectors are not.
#pragma once

#include <cstddef>

namespace shardprop::graph {

[[nodiscard]] inline std::size_t at(int number) { return static_cast<std::size_t>(number); }

}  // namespace shardprop::graph
