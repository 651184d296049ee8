#include "bound_problem.h"

#include <pybind11/stl.h>

#include <algorithm>

#include "pricer.h"

namespace shardprop::bindings {
namespace {

// Bits of the `options` argument; python/shardprop/engine.py names them too.
enum Option : unsigned {
  kInPlace = 1,
  kAllowUneven = 2,
  kPrefersNoRedistribute = 4,
  kForceGraph = 8,
  kKeepAbsent = 16,
  kAlwaysShards = 32,
  kAskKinds = 64,
};

std::vector<ShardKind> kinds_of(const Problem& problem, py::handle ask_kinds, unsigned options) {
  if (options & kAskKinds) return ask_kinds().cast<std::vector<ShardKind>>();
  bool plain = options & kAlwaysShards;
  for (const Operand& operand : problem.operands) {
    // The order of several kinds is that of a Python set, which only Python knows.
    if (has_strided(operand.layout)) {
      auto kinds = ask_kinds().cast<std::vector<ShardKind>>();
      if (plain && std::find(kinds.begin(), kinds.end(), 0) == kinds.end()) kinds.push_back(0);
      return kinds;
    }
    for (int m = 0; m < operand.layout.ndim; ++m) plain |= operand.layout.placements[m].is_shard();
  }
  return plain ? std::vector<ShardKind>{0} : std::vector<ShardKind>{};
}

// An output may be absent in some rows only: torch adds an all-Replicate row with None where the op
// gave none, beside rows that name a placement. torch 2.13 then goes by the first mesh dim, 2.15
// asserts unless there is only one. Where such an output is also compared, torch is asked.
void refuse_odd_absences(const RowTable& table, const Problem& problem, bool asserts) {
  for (int p = 0; p < table.outputs; ++p) {
    int absences = 0;
    for (int r = 0; r < table.rows(); ++r) absences += table.at(r, p).kind == Kind::kAbsent;
    if (absences > 0 && table.outputs == 1) throw Unsupported("rule whose only output is absent");
    if (absences == 0 || absences == table.rows()) continue;
    if (problem.in_place || !problem.fixed.empty() || (asserts && problem.mesh.ndim > 1)) {
      throw Unsupported("rule whose output is absent in some rows only");
    }
  }
}

}  // namespace

BoundProblem::BoundProblem(const Arguments& asked) : arguments(asked) {
  if (asked.outputs < 0 || asked.outputs > 4096) {
    throw std::invalid_argument("Expected 0 to 4096 outputs.");
  }
  problem.mesh = asked.mesh.mesh;
  problem.member = asked.mesh.member;
  problem.in_place = asked.options & kInPlace;
  problem.allow_uneven = asked.options & kAllowUneven;
  problem.prefers_no_redistribute = asked.options & kPrefersNoRedistribute;
  problem.force_graph = asked.options & kForceGraph;
  problem.dialect = environment().dialect;
  decode_operands();
  if (problem.operands.empty()) throw Unsupported("op without tensor operands");
  if (asked.positional < 0 || asked.positional > static_cast<int>(problem.operands.size())) {
    throw std::invalid_argument("Expected at most as many positional operands as operands.");
  }
  problem.positional = asked.positional;
  decode_fixed();
  decode_table();
  problem.op_hashes = decoder.op_hashes();
  if (!asked.accepts.is_none()) {
    problem.accepts = [this](const Rows& chosen) {
      return arguments.accepts(placements(chosen)).cast<bool>();
    };
  }
  has_history = depends_on_history(problem);
  if (has_history && symbolic) throw Unsupported("symbolic shape in a graph plan");
  // Only then does it matter, and torch takes microseconds to say.
  if (has_history) problem.fresh_planners = asked.ask_tracing().cast<bool>();
}

py::object BoundProblem::object(int row, int position) const {
  const int source = expansion.source[row] - (added_row ? 1 : 0);
  if (source < 0 || rule.table.at(source, position).kind == Kind::kPlaceholder) {
    return filled_object(problem.table.at(row, position));
  }
  return rule.objects[source * rule.table.width() + position];
}

py::tuple BoundProblem::placements(const Rows& rows) const {
  const int width = problem.table.width(), mesh_dims = problem.mesh.ndim;
  py::tuple all(width);
  for (int p = 0; p < width; ++p) {
    if (problem.table.at(rows[0], p).kind == Kind::kAbsent) {
      all[p] = py::none();
      continue;
    }
    py::tuple over_mesh(mesh_dims);
    for (int m = 0; m < mesh_dims; ++m) over_mesh[m] = object(rows[m], p);
    all[p] = std::move(over_mesh);
  }
  return all;
}

void BoundProblem::decode_operands() {
  const py::handle device_mesh = arguments.device_mesh;
  const auto pinned = arguments.pinned.cast<std::vector<int>>();
  std::vector<py::object> metas;
  std::vector<std::string> growths;
  bool any_strided = false, any_ordered = problem.force_graph;
  for (const py::handle spec : arguments.specs) {
    DecodedSpec decoded = decoder.spec(spec, Sizes::kSymbolic);
    const int index = static_cast<int>(problem.operands.size());
    Operand operand{std::move(decoded.layout), std::move(decoded.info)};
    if (!decoded.mesh.is(device_mesh) && !decoded.mesh.equal(device_mesh)) {
      const bool by_right = std::find(pinned.begin(), pinned.end(), index) != pinned.end();
      if (by_right && !all_replicate(operand.layout)) {
        throw Unsupported("operand on another mesh that is not replicated");
      }
      operand.where = by_right ? Operand::Where::kPinned : Operand::Where::kForeign;
    }
    if (operand.where != Operand::Where::kHere) {
      operand.layout.ndim = problem.mesh.ndim;  // never compared with a wanted placement
    } else if (operand.layout.ndim != problem.mesh.ndim) {
      throw Unsupported("operand with another number of placements than mesh dims");
    }
    // torch takes the flag of the first operand that holds strided shards for all its strategies.
    const bool strided = has_strided(operand.layout);
    if (strided && !any_strided) problem.strided_is_order = decoded.strided_is_order;
    any_strided |= strided;
    any_ordered |= operand.layout.ordered && !has_default_order(operand.layout);
    metas.push_back(std::move(decoded.tensor_meta));
    if (operand.info.symbolic != 0) {
      const auto known = std::find(growths.begin(), growths.end(), decoded.growth);
      operand.growth = static_cast<int>(known - growths.begin());
      if (known == growths.end()) growths.push_back(std::move(decoded.growth));
    }
    problem.operands.push_back(std::move(operand));
  }
  symbolic = !growths.empty();
  // To compare metadata would compare expressions, and guard them.
  if (symbolic) return;
  if (!any_strided && !any_ordered) return;  // no graph plan, so no planner to share
  for (std::size_t i = 0; i < metas.size(); ++i) {
    const auto twin = std::find_if(metas.begin(), metas.begin() + static_cast<std::ptrdiff_t>(i),
                                   [&](const py::object& meta) { return meta.equal(metas[i]); });
    problem.operands[i].planner = static_cast<int>(twin - metas.begin());
  }
}

void BoundProblem::decode_fixed() {
  if (arguments.fixed.is_none()) return;
  for (const py::handle item : arguments.fixed) {
    const auto [position, spec] = item.cast<std::pair<int, py::object>>();
    const int width = arguments.outputs + static_cast<int>(problem.operands.size());
    if (position < 0 || position >= width) {
      throw std::invalid_argument("Expected the position of an output or operand.");
    }
    const Layout layout = decoder.spec(spec, Sizes::kSymbolic).layout;
    if (layout.ndim != problem.mesh.ndim)
      throw Unsupported("tensor that cannot move on another mesh");
    problem.fixed.push_back({position, layout});
  }
}

void BoundProblem::decode_table() {
  const bool keep_absent = arguments.options & kKeepAbsent;
  const int operands = static_cast<int>(problem.operands.size());
  rule = decode_rule(decoder, arguments.rows, arguments.outputs, operands);
  std::vector<int> dims;
  for (const Operand& operand : problem.operands) {
    dims.push_back(static_cast<int>(operand.info.shape.size()));
  }
  validate_rule(rule.table, dims);
  const auto absent_outputs = arguments.absent_outputs.is_none()
                                  ? std::vector<bool>{}
                                  : arguments.absent_outputs.cast<std::vector<bool>>();
  const RowTable table = with_replicate_row(rule.table, absent_outputs, keep_absent);
  added_row = table.rows() != rule.table.rows();
  refuse_odd_absences(table, problem, keep_absent);
  const auto kinds = kinds_of(problem, arguments.ask_kinds, arguments.options);
  expansion = fill_placeholders(table, kinds);
  problem.table = std::move(expansion.table);
  if (!problem.table.asks.empty()) decode_output_shapes();
}

// Only where rows ask something of sizes: which outputs there are, and how large, takes a while.
void BoundProblem::decode_output_shapes() {
  if (symbolic) throw Unsupported("rule that asks something of sizes that are expressions");
  const RowTable& table = problem.table;
  std::vector<py::object> shapes;
  if (!arguments.output_shapes.is_none()) {
    shapes = arguments.output_shapes().cast<std::vector<py::object>>();
  }
  problem.output_shapes.resize(table.outputs);
  for (int p = 0; p < table.outputs; ++p) {
    int dims = 0;  // that are asked about
    for (int r = 0; r < table.rows(); ++r) {
      if (table.asks.of(r * table.width() + p)) dims = std::max(dims, table.at(r, p).dim + 1);
    }
    if (dims == 0) continue;
    if (static_cast<std::size_t>(p) >= shapes.size() || !PyTuple_Check(shapes[p].ptr())) {
      throw Unsupported("rule that asks something of an output of unknown size");
    }
    for (const py::handle size : shapes[p]) {
      if (!PyLong_CheckExact(size.ptr())) {
        throw Unsupported("rule that asks something of sizes that are expressions");
      }
      problem.output_shapes[p].push_back(size.cast<std::int64_t>());
    }
    if (static_cast<int>(problem.output_shapes[p].size()) < dims) {
      throw RuleError("output " + std::to_string(p) + ": Expected a sharding of one of its " +
                      std::to_string(problem.output_shapes[p].size()) +
                      " tensor dims, got tensor dim " + std::to_string(dims - 1) + ".");
    }
  }
}

}  // namespace shardprop::bindings
