// The one place where Python objects become the core's integers. (layout/layout.h decodes strided
// shards.)
//
// It reads attributes of torch's placements and specs, never casts them: a failed pybind11 cast of
// torch's own types costs microseconds. Types and interned names are fetched once, by configure().
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <string>
#include <vector>

#include "layout/layout.h"
#include "rule/rule.h"
#include "search/problem.h"
#include "torch_plan/redistribute.h"

namespace shardprop::bindings {

namespace py = pybind11;

// Something the core does not model; the caller asks torch instead. The message is the reason that
// stats() counts.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws it, in a tenth of the code that a `throw` takes at each of fifty places.
[[noreturn]] void unsupported(const char* reason);

// What the program told us about torch and Python: set once, then read only.
struct Environment {
  py::object replicate_type, shard_type, strided_shard_type, partial_type, norm_type;
  py::object placeholder_type, placement_base, spec_type;
  std::vector<py::object> singleton_types;  // whose objects are told apart by address
  py::object read_size;            // what a size is that is no int: see configure in _core.pyi
  py::object replicate;            // an instance, for rows the core adds
  std::vector<py::object> shards;  // Shard(0), Shard(1), ...: for placeholders
  std::vector<std::uint64_t> reduce_op_hashes;
  Dialect dialect;
};
[[nodiscard]] const Environment& environment();
void configure(py::dict types, py::object read_size, bool zero_fill_partial, bool compensated_sum);

struct DecodedSpec {
  Layout layout;
  TensorInfo info;
  py::object mesh, tensor_meta;
  bool strided_is_order = false;
  std::string growth;  // the product of the symbolic sizes, as text
};

inline constexpr std::size_t kMaxTensorDims = 20;  // of an operand; others are declined

// What to make of sizes that are no ints: decline, or take what they are now.
enum class Sizes : std::uint8_t { kInts, kSymbolic };

// One call's worth of decoding. Opaque placements get ids that mean something within the call only;
// two are the same if they are equal in Python.
class Decoder {
 public:
  [[nodiscard]] Placement placement(py::handle object);
  // A cell of a rule's row: a placement, a placeholder or None. Ours may have a constraint:
  // `constraint` is then what, else it is left alone.
  [[nodiscard]] Placement cell(py::handle object, Constraint& constraint);
  [[nodiscard]] DecodedSpec spec(py::handle object, Sizes sizes = Sizes::kInts);

  // Bytes that are equal for two specs only if placements, shard order, shape, stride and dtype
  // are. `by_address`, good only while they live, the mesh, opaque placements and symbolic sizes
  // count too; without it the key of a spec that has an opaque placement is empty.
  [[nodiscard]] std::string spec_key(py::handle object, bool by_address);

  // Forget which opaque placements there were, but not what the others are.
  void forget_opaque() {
    opaque_.clear();
    partial_classes_.clear();
  }

  // Python's hashes of the reduce ops, by id.
  [[nodiscard]] std::span<const std::uint64_t> op_hashes() const;

 private:
  [[nodiscard]] Placement plain_shard(py::handle object);
  [[nodiscard]] std::uint16_t reduce_op(py::handle partial);
  [[nodiscard]] std::uint16_t identity(py::handle object);
  [[nodiscard]] Layout layout(py::handle placements, py::handle shard_order);
  void shape(py::handle sizes_of, DecodedSpec& spec, Sizes sizes);

  std::vector<std::pair<py::object, Placement>> shards_;  // those read last: many specs share them
  std::vector<py::object> opaque_;
  std::vector<py::object> partial_classes_;
  std::vector<std::string> extra_ops_;
  std::vector<std::uint64_t> extra_hashes_;  // the known ones and then the extra ones, once needed
};

// Rows of a rule as the rule function returned them, and the cells as objects.
struct DecodedRule {
  RowTable table;
  std::vector<py::object> objects;
};
[[nodiscard]] DecodedRule decode_rule(Decoder& decoder, py::handle rows, int outputs, int inputs);

// The Python object of a cell that a rule had a placeholder for, or that we added.
[[nodiscard]] py::object filled_object(Placement filled);

// The Python object of a placement of a plan between two specs.
[[nodiscard]] py::object placement_object(Placement placement, py::handle src, py::handle dst,
                                          Decoder& decoder);

[[nodiscard]] Mesh decode_mesh(py::handle sizes, py::handle bandwidth, py::handle latency);

}  // namespace shardprop::bindings
