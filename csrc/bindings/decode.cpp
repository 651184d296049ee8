#include "decode.h"

#include <algorithm>

namespace shardprop::bindings {

[[gnu::noinline, gnu::cold]] void unsupported(const char* reason) { throw Unsupported(reason); }

namespace {

py::object restore(py::handle spec, Placement wanted, Decoder& decoder) {
  // Opaque placements come back as the very objects they were.
  for (const py::handle object : spec.attr("placements")) {
    if (decoder.placement(object) == wanted) return py::reinterpret_borrow<py::object>(object);
  }
  return {};
}

// Interned names, so that an attribute costs a dictionary look-up and no string.
struct Names {
  py::object dim = intern("dim"), split_factor = intern("split_factor"),
             reduce_op = intern("reduce_op"), placements = intern("placements"),
             tensor_meta = intern("tensor_meta"), shard_order = intern("shard_order"),
             mesh = intern("mesh"), itemsize = intern("itemsize"),
             is_order = intern("use_strided_shard_as_shard_order"), even = intern("even"),
             min_local = intern("min_local"), multiple_of = intern("multiple_of");

  static py::object intern(const char* name) {
    return py::reinterpret_steal<py::object>(PyUnicode_InternFromString(name));
  }
};

// Both live as long as the process: destroying Python objects at exit is not safe.
const Names& names() {
  static const Names* all = new Names;
  return *all;
}
Environment& mutable_environment() {
  static Environment* environment = new Environment;
  return *environment;
}

py::object attribute(py::handle object, const py::object& name) {
  PyObject* value = PyObject_GetAttr(object.ptr(), name.ptr());
  if (value == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(value);
}

std::int64_t integer(py::handle object, const char* otherwise) {
  if (!PyLong_CheckExact(object.ptr())) unsupported(otherwise);
  const long long value = PyLong_AsLongLong(object.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    unsupported("integer beyond 64 bits");
  }
  return value;
}

std::uint8_t tensor_dim(py::handle object) {
  const auto dim = integer(attribute(object, names().dim), "shard dim that is no int");
  // The limit is that of the graph planner's alphabet (32 placements), with room for partials.
  if (dim < 0 || dim > 20) unsupported("shard dim that is negative or above 20");
  return static_cast<std::uint8_t>(dim);
}

bool is_type(py::handle object, const py::object& type) {
  return reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) == type.ptr();
}

bool is_instance(py::handle object, const py::object& type) {
  const int found = PyObject_IsInstance(object.ptr(), type.ptr());
  if (found < 0) throw py::error_already_set();
  return found == 1;
}

py::tuple as_tuple(py::handle object, const char* otherwise) {
  if (!PyTuple_Check(object.ptr())) unsupported(otherwise);
  return py::reinterpret_borrow<py::tuple>(object);
}

}  // namespace

const Environment& environment() { return mutable_environment(); }

void configure(py::dict types, py::object read_size, bool zero_fill_partial, bool compensated_sum) {
  Environment next;
  next.replicate_type = types["Replicate"];
  next.shard_type = types["Shard"];
  next.strided_shard_type = types["_StridedShard"];
  next.partial_type = types["Partial"];
  next.norm_type = types["_NormPartial"];
  next.placeholder_type = types["_ShardingPlaceholder"];
  next.placement_base = types["Placement"];
  next.spec_type = types["DTensorSpec"];
  for (const char* name : {"dtype", "layout", "memory_format"}) {
    next.singleton_types.push_back(types[name]);
  }
  next.read_size = std::move(read_size);
  next.replicate = next.replicate_type();
  for (int d = 0; d < 32; ++d) next.shards.push_back(next.shard_type(d));
  for (const char* name : kReduceOpNames) {
    next.reduce_op_hashes.push_back(static_cast<std::uint64_t>(py::hash(py::str(name))));
  }
  next.dialect = {zero_fill_partial, compensated_sum};
  mutable_environment() = std::move(next);
}

std::uint16_t Decoder::reduce_op(py::handle partial) {
  const py::object op = attribute(partial, names().reduce_op);
  if (!PyUnicode_Check(op.ptr())) unsupported("reduce op that is no string");
  for (std::size_t i = 0; i < kReduceOpNames.size(); ++i) {
    if (PyUnicode_CompareWithASCIIString(op.ptr(), kReduceOpNames[i]) == 0) {
      return static_cast<std::uint16_t>(i);
    }
  }
  const auto name = op.cast<std::string>();
  const auto found = std::find(extra_ops_.begin(), extra_ops_.end(), name);
  const auto id = kReduceOpNames.size() + static_cast<std::size_t>(found - extra_ops_.begin());
  if (found == extra_ops_.end()) {
    if (extra_hashes_.empty()) extra_hashes_ = environment().reduce_op_hashes;
    extra_ops_.push_back(name);
    extra_hashes_.push_back(static_cast<std::uint64_t>(py::hash(op)));
  }
  return static_cast<std::uint16_t>(id);
}

std::span<const std::uint64_t> Decoder::op_hashes() const {
  return extra_hashes_.empty() ? std::span<const std::uint64_t>(environment().reduce_op_hashes)
                               : std::span<const std::uint64_t>(extra_hashes_);
}

std::uint16_t Decoder::identity(py::handle object) {
  for (std::size_t i = 0; i < opaque_.size(); ++i) {
    if (opaque_[i].is(object) || opaque_[i].equal(object)) return static_cast<std::uint16_t>(i + 1);
  }
  opaque_.push_back(py::reinterpret_borrow<py::object>(object));
  return static_cast<std::uint16_t>(opaque_.size());
}

Placement Decoder::plain_shard(py::handle object) {
  for (const auto& [known, placement] : shards_) {
    if (known.is(object)) return placement;
  }
  const Placement placement = shard(tensor_dim(object));
  if (shards_.size() < 4)
    shards_.emplace_back(py::reinterpret_borrow<py::object>(object), placement);
  return placement;
}

Placement Decoder::placement(py::handle object) {
  const Environment& env = environment();
  if (is_type(object, env.shard_type)) return plain_shard(object);
  if (is_type(object, env.replicate_type)) return replicate();
  if (is_type(object, env.partial_type)) return partial(reduce_op(object));
  if (is_type(object, env.strided_shard_type)) {
    const auto factor = integer(attribute(object, names().split_factor), "symbolic split factor");
    if (factor < 1 || factor > 0xffffffffLL) unsupported("split factor below 1");
    return strided_shard(tensor_dim(object), static_cast<std::uint32_t>(factor));
  }
  if (is_type(object, env.norm_type)) {
    return partial_of_class(reduce_op(object), kNormClass, identity(object));
  }
  // A subclass may have changed what is_shard() and its like answer, except that of Partial, which
  // torch itself subclasses (_MaskPartial) and treats as a partial that equals only itself.
  if (is_instance(object, env.shard_type) || is_instance(object, env.replicate_type) ||
      is_instance(object, env.strided_shard_type)) {
    const py::handle type(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())));
    throw Unsupported("subclass " + py::str(type.attr("__qualname__")).cast<std::string>() +
                      " of a placement");
  }
  if (is_instance(object, env.partial_type)) {
    const auto type =
        py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())));
    const auto found = std::find_if(partial_classes_.begin(), partial_classes_.end(),
                                    [&](const py::object& known) { return known.is(type); });
    const auto class_id =
        static_cast<std::uint16_t>(found - partial_classes_.begin() + kFirstOtherClass);
    if (found == partial_classes_.end()) partial_classes_.push_back(type);
    return partial_of_class(reduce_op(object), class_id, identity(object));
  }
  if (!is_instance(object, env.placement_base)) unsupported("object that is no placement");
  return opaque(identity(object));
}

Placement Decoder::cell(py::handle object, Constraint& constraint) {
  const Environment& env = environment();
  if (object.is_none()) return absent();
  if (is_type(object, env.placeholder_type)) return placeholder(tensor_dim(object));
  const bool is_plain = is_type(object, env.shard_type) || is_type(object, env.replicate_type) ||
                        is_type(object, env.partial_type);
  if (is_plain || !is_instance(object, env.placeholder_type)) return placement(object);
  if (!PyObject_HasAttr(object.ptr(), names().even.ptr())) {
    unsupported("subclass of a placeholder");
  }
  constraint.even = PyObject_IsTrue(attribute(object, names().even).ptr()) == 1;
  constraint.least = integer(attribute(object, names().min_local), "min_local that is no int");
  constraint.multiple =
      integer(attribute(object, names().multiple_of), "multiple_of that is no int");
  if (constraint.least < 0 || constraint.multiple < 1)
    unsupported("placeholder that asks for less than 0");
  return placeholder(tensor_dim(object));
}

Layout Decoder::layout(py::handle placements, py::handle shard_order) {
  const py::tuple items = as_tuple(placements, "placements that are no tuple");
  if (items.size() > static_cast<std::size_t>(kMaxMeshDims)) {
    unsupported("mesh of more than 8 dims");
  }
  std::array<Placement, kMaxMeshDims> cells;
  for (std::size_t m = 0; m < items.size(); ++m) {
    cells[m] = placement(PyTuple_GET_ITEM(items.ptr(), static_cast<Py_ssize_t>(m)));
  }
  const std::span<const Placement> span(cells.data(), items.size());
  if (shard_order.is_none()) return unordered_layout(span);
  Layout layout = default_layout(span);
  int placed = 0;
  for (const py::handle entry : as_tuple(shard_order, "shard order that is no tuple")) {
    const py::tuple pair = as_tuple(entry, "shard order entry that is no tuple");
    const auto dim = integer(pair[0], "symbolic shard order");
    const py::tuple mesh_dims = as_tuple(pair[1], "shard order entry that is no tuple");
    for (std::size_t i = 0; i < mesh_dims.size(); ++i, ++placed) {
      const auto m = integer(mesh_dims[i], "symbolic shard order");
      if (m < 0 || m >= layout.ndim || !cells[m].is_shard_like() || cells[m].dim != dim) {
        unsupported("shard order that does not fit the placements");
      }
      layout.position[m] = static_cast<std::uint8_t>(i);
    }
  }
  const auto shards =
      std::count_if(span.begin(), span.end(), [](Placement p) { return p.is_shard_like(); });
  if (placed != shards) unsupported("shard order that does not fit the placements");
  return layout;
}

DecodedSpec Decoder::spec(py::handle object, Sizes sizes) {
  DecodedSpec spec;
  const py::object meta = attribute(object, names().tensor_meta);
  if (meta.is_none()) unsupported("operand without tensor metadata");
  const py::object placements = attribute(object, names().placements);
  const py::object order = attribute(object, names().shard_order);
  const py::object mesh = attribute(object, names().mesh);
  const py::object is_order = attribute(object, names().is_order);
  spec.tensor_meta = meta;
  spec.mesh = mesh;
  spec.strided_is_order = is_order.is(py::handle(Py_True));
  spec.layout = layout(placements, order);
  if (spec.strided_is_order && spec.layout.ordered) {
    unsupported("strided shards that stand for an order beside a shard order");
  }
  const py::tuple fields = as_tuple(meta, "tensor metadata that is no tuple");
  shape(fields[0], spec, sizes);
  double elements = 1;
  for (const auto size : spec.info.shape) elements *= static_cast<double>(size);
  spec.info.itemsize = integer(attribute(fields[2], names().itemsize), "itemsize that is no int");
  // Up to here torch's integer arithmetic and doubles agree to the bit.
  if (elements * static_cast<double>(spec.info.itemsize) >= 9007199254740992.0) {
    unsupported("tensor of 2**53 bytes or more");
  }
  return spec;
}

void Decoder::shape(py::handle sizes_of, DecodedSpec& spec, Sizes sizes) {
  const py::tuple shape = as_tuple(sizes_of, "shape that is no tuple");
  if (shape.size() > kMaxTensorDims) unsupported("tensor of more than 20 dims");
  std::vector<std::string> symbols;
  for (const py::handle size : shape) {
    if (PyLong_CheckExact(size.ptr())) {
      spec.info.shape.push_back(integer(size, "size beyond 64 bits"));
      continue;
    }
    if (sizes == Sizes::kInts) unsupported("symbolic shape");
    const auto [now, text] =
        environment().read_size(size).cast<std::pair<std::int64_t, std::string>>();
    spec.info.symbolic |= 1u << spec.info.shape.size();
    spec.info.shape.push_back(now);
    symbols.push_back(text);
  }
  std::sort(symbols.begin(), symbols.end());
  for (const auto& text : symbols) spec.growth += text + "*";
}

std::string Decoder::spec_key(py::handle object, bool by_address) {
  const DecodedSpec spec = this->spec(object, by_address ? Sizes::kSymbolic : Sizes::kInts);
  if (!extra_ops_.empty()) unsupported("unknown reduce op in a key");
  if (!opaque_.empty() && !by_address) return {};
  std::string key;
  const auto add = [&key](auto value) {
    key.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const py::tuple fields = py::reinterpret_borrow<py::tuple>(spec.tensor_meta);
  if (by_address) add(spec.mesh.ptr());
  add(PyTuple_GET_ITEM(fields.ptr(), 2));  // dtypes are singletons
  add(static_cast<std::uint8_t>(spec.layout.ordered | (spec.strided_is_order << 1)));
  for (int m = 0; m < spec.layout.ndim; ++m) {
    add(spec.layout.placements[m].bits());
    add(spec.layout.position[m]);
  }
  for (const py::object& placement : opaque_) add(placement.ptr());
  add(spec.info.shape.size());
  add(spec.info.symbolic);
  for (const py::handle list : {fields[0], fields[1]}) {
    for (const py::handle size : as_tuple(list, "shape or stride that is no tuple")) {
      const bool is_int = PyLong_CheckExact(size.ptr());
      if (!is_int && !by_address) unsupported("symbolic stride");
      add(is_int);
      if (is_int) {
        add(integer(size, "size beyond 64 bits"));
      } else {
        add(size.ptr());
      }
    }
  }
  return key;
}

DecodedRule decode_rule(Decoder& decoder, py::handle rows, int outputs, int inputs) {
  DecodedRule rule{{outputs, inputs, {}, {}}, {}};
  const auto cells =
      static_cast<std::size_t>(std::max<Py_ssize_t>(PyObject_LengthHint(rows.ptr(), 0), 0)) *
      static_cast<std::size_t>(rule.table.width());
  rule.table.cells.reserve(std::min<std::size_t>(cells, 4096));
  rule.objects.reserve(std::min<std::size_t>(cells, 4096));
  int index = 0;
  for (const py::handle row : rows) {
    const auto width = static_cast<int>(py::len(row));
    if (width != rule.table.width()) {
      throw RuleError("row " + std::to_string(index) + ": Expected " + std::to_string(outputs) +
                      " outputs and " + std::to_string(inputs) + " operands, got " +
                      std::to_string(width) + " placements.");
    }
    for (const py::handle cell : row) {
      Constraint constraint;
      rule.table.cells.push_back(decoder.cell(cell, constraint));
      if (!(constraint == Constraint{})) {
        rule.table.constraints.set(static_cast<int>(rule.table.cells.size()) - 1, constraint);
      }
      rule.objects.push_back(py::reinterpret_borrow<py::object>(cell));
    }
    ++index;
  }
  if (index >= 65535) unsupported("rule of 65535 rows or more");
  return rule;
}

py::object filled_object(Placement filled) {
  const Environment& env = environment();
  if (filled.kind == Kind::kAbsent) return py::none();
  if (filled.is_shard()) return env.shards[filled.dim];
  if (filled.is_strided()) {
    return env.strided_shard_type(filled.dim, py::arg("split_factor") = filled.value);
  }
  return env.replicate;
}

Mesh decode_mesh(py::handle sizes, py::handle bandwidth, py::handle latency) {
  const auto ndim = py::len(sizes);
  if (ndim < 1 || ndim > static_cast<std::size_t>(kMaxMeshDims)) {
    unsupported(ndim < 1 ? "mesh without dims" : "mesh of more than 8 dims");
  }
  Mesh mesh;
  mesh.ndim = static_cast<int>(ndim);
  for (int m = 0; m < mesh.ndim; ++m) {
    mesh.size[m] = sizes[py::int_(m)].cast<std::int64_t>();
    mesh.bandwidth[m] = bandwidth[py::int_(m)].cast<double>();
    mesh.latency[m] = latency[py::int_(m)].cast<double>();
    if (mesh.size[m] < 1) unsupported("mesh dim of size 0");
    if (!(mesh.bandwidth[m] > 0) || !(mesh.latency[m] >= 0)) {
      throw std::invalid_argument(
          "Expected a positive bandwidth and a latency of 0 or more on mesh dim " +
          std::to_string(m) + ".");
    }
  }
  return mesh;
}

py::object placement_object(Placement placement, py::handle src, py::handle dst, Decoder& decoder) {
  if (placement.is_replicate() || placement.is_shard()) return filled_object(placement);
  for (const py::handle spec : {src, dst}) {
    if (py::object found = restore(spec, placement, decoder)) return found;
  }
  if (placement.is_strided()) return filled_object(placement);
  return environment().partial_type(kReduceOpNames.at(placement.reduce_op()));
}

}  // namespace shardprop::bindings
