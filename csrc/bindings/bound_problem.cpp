#include "bound_problem.h"

#include <pybind11/stl.h>

#include <algorithm>

#include "search/pricer.h"

namespace shardprop::bindings {
namespace {

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
    if (absences > 0 && table.outputs == 1) unsupported("rule whose only output is absent");
    if (absences == 0 || absences == table.rows()) continue;
    if (problem.in_place || !problem.fixed.empty() || (asserts && problem.mesh.ndim > 1)) {
      unsupported("rule whose output is absent in some rows only");
    }
  }
}

// A strategy as Python sees it: wanted placements per operand, and what each costs now.
py::tuple as_python(const BoundProblem& bound, const Strategy& strategy) {
  const py::tuple all = bound.placements(strategy.rows);
  const RowTable& table = bound.problem().table;
  return py::make_tuple(all[py::slice(table.outputs, table.width(), 1)],
                        py::cast(strategy.operand_costs));
}

py::list as_python(const BoundProblem& bound, std::span<const Strategy> strategies) {
  py::list all;
  for (const Strategy& strategy : strategies) all.append(as_python(bound, strategy));
  return all;
}

SizeOracle size_oracle(const BoundProblem& bound, const py::object& sizes) {
  SizeOracle oracle;
  oracle.holds = [sizes](int operand, int tensor_dim, std::int64_t pieces) {
    return sizes.attr("holds")(operand, tensor_dim, pieces).cast<bool>();
  };
  oracle.cheapest = [&bound, sizes](std::span<const Strategy> strategies) {
    return sizes.attr("cheapest")(as_python(bound, strategies)).cast<std::size_t>();
  };
  oracle.keep_product = [sizes](int operand, std::optional<std::int64_t> least,
                                std::optional<std::int64_t> most) {
    sizes.attr("keep_product")(operand, least, most);
  };
  oracle.keep_cheapest = [&bound, sizes](const Strategy& chosen, std::span<const Strategy> before,
                                         std::span<const Strategy> after) {
    sizes.attr("keep_cheapest")(as_python(bound, chosen), as_python(bound, before),
                                as_python(bound, after));
  };
  return oracle;
}

}  // namespace

BoundProblem::BoundProblem(const Arguments& asked) {
  if (asked.outputs < 0 || asked.outputs > 4096) {
    throw std::invalid_argument("Expected 0 to 4096 outputs.");
  }
  problem_.mesh = asked.mesh.mesh;
  problem_.member = asked.mesh.member;
  problem_.in_place = asked.options & kInPlace;
  problem_.allow_uneven = asked.options & kAllowUneven;
  problem_.prefers_no_redistribute = asked.options & kPrefersNoRedistribute;
  problem_.force_graph = asked.options & kForceGraph;
  problem_.dialect = environment().dialect;
  const bool symbolic = decode_operands(asked);
  if (problem_.operands.empty()) unsupported("op without tensor operands");
  if (asked.positional < 0 || asked.positional > static_cast<int>(problem_.operands.size())) {
    throw std::invalid_argument("Expected at most as many positional operands as operands.");
  }
  problem_.positional = asked.positional;
  decode_fixed(asked);
  decode_table(asked, symbolic);
  problem_.op_hashes = decoder_.op_hashes();
  if (!asked.accepts.is_none()) {
    accepts_ = py::reinterpret_borrow<py::object>(asked.accepts);
    problem_.accepts = [this](const Rows& chosen) {
      return accepts_(placements(chosen)).cast<bool>();
    };
  }
  has_history_ = depends_on_history(problem_);
  if (has_history_ && symbolic) unsupported("symbolic shape in a graph plan");
  // Only then does it matter, and torch takes microseconds to say.
  if (has_history_) problem_.fresh_planners = asked.ask_tracing().cast<bool>();
  if (symbolic) {
    sizes_ = std::make_unique<SizeOracle>(size_oracle(*this, asked.symbolic()));
    problem_.sizes = sizes_.get();
  }
}

py::object BoundProblem::object(int row, int position) const {
  const int source = this->source(row);
  if (source < 0 || rule_.table.at(source, position).kind == Kind::kPlaceholder) {
    return filled_object(problem_.table.at(row, position));
  }
  return rule_.objects[source * rule_.table.width() + position];
}

py::tuple BoundProblem::answer(const Decision& decision) const {
  const int verdict = static_cast<int>(decision.verdict);
  if (decision.verdict != Verdict::kFound) {
    return py::make_tuple(verdict, py::none(), py::none(), py::none(), decision.nodes);
  }
  return py::make_tuple(verdict, placements(decision.rows), decision.cost,
                        py::cast(decision.operand_costs), decision.nodes);
}

py::tuple BoundProblem::placements(const Rows& rows) const {
  const int width = problem_.table.width(), mesh_dims = problem_.mesh.ndim;
  py::tuple all(width);
  for (int p = 0; p < width; ++p) {
    if (problem_.table.at(rows[0], p).kind == Kind::kAbsent) {
      all[p] = py::none();
      continue;
    }
    py::tuple over_mesh(mesh_dims);
    for (int m = 0; m < mesh_dims; ++m) over_mesh[m] = object(rows[m], p);
    all[p] = std::move(over_mesh);
  }
  return all;
}

bool BoundProblem::decode_operands(const Arguments& asked) {
  const py::handle device_mesh = asked.device_mesh;
  const auto pinned = asked.pinned.cast<std::vector<int>>();
  std::vector<py::object> metas;
  std::vector<std::string> growths;
  bool any_strided = false, any_ordered = problem_.force_graph;
  for (const py::handle spec : asked.specs) {
    DecodedSpec decoded = decoder_.spec(spec, Sizes::kSymbolic);
    const int index = static_cast<int>(problem_.operands.size());
    Operand operand{std::move(decoded.layout), std::move(decoded.info)};
    if (!decoded.mesh.is(device_mesh) && !decoded.mesh.equal(device_mesh)) {
      const bool by_right = std::find(pinned.begin(), pinned.end(), index) != pinned.end();
      if (by_right && !all_replicate(operand.layout)) {
        unsupported("operand on another mesh that is not replicated");
      }
      operand.where = by_right ? Operand::Where::kPinned : Operand::Where::kForeign;
    }
    if (operand.where != Operand::Where::kHere) {
      operand.layout.ndim = problem_.mesh.ndim;  // never compared with a wanted placement
    } else if (operand.layout.ndim != problem_.mesh.ndim) {
      unsupported("operand with another number of placements than mesh dims");
    }
    // torch takes the flag of the first operand that holds strided shards for all its strategies.
    const bool strided = has_strided(operand.layout);
    if (strided && !any_strided) problem_.strided_is_order = decoded.strided_is_order;
    any_strided |= strided;
    any_ordered |= operand.layout.ordered && !has_default_order(operand.layout);
    metas.push_back(std::move(decoded.tensor_meta));
    if (operand.info.symbolic != 0) {
      const auto known = std::find(growths.begin(), growths.end(), decoded.growth);
      operand.growth = static_cast<int>(known - growths.begin());
      if (known == growths.end()) growths.push_back(std::move(decoded.growth));
    }
    problem_.operands.push_back(std::move(operand));
  }
  // To compare metadata would compare expressions, and guard them.
  if (!growths.empty()) return true;
  if (!any_strided && !any_ordered) return false;  // no graph plan, so no planner to share
  for (std::size_t i = 0; i < metas.size(); ++i) {
    const auto twin = std::find_if(metas.begin(), metas.begin() + static_cast<std::ptrdiff_t>(i),
                                   [&](const py::object& meta) { return meta.equal(metas[i]); });
    problem_.operands[i].planner = static_cast<int>(twin - metas.begin());
  }
  return false;
}

void BoundProblem::decode_fixed(const Arguments& asked) {
  if (asked.fixed.is_none()) return;
  for (const py::handle item : asked.fixed) {
    const auto [position, spec] = item.cast<std::pair<int, py::object>>();
    const int width = asked.outputs + static_cast<int>(problem_.operands.size());
    if (position < 0 || position >= width) {
      throw std::invalid_argument("Expected the position of an output or operand.");
    }
    const Layout layout = decoder_.spec(spec, Sizes::kSymbolic).layout;
    if (layout.ndim != problem_.mesh.ndim) unsupported("tensor that cannot move on another mesh");
    problem_.fixed.push_back({position, layout});
  }
}

void BoundProblem::decode_table(const Arguments& asked, bool symbolic) {
  const bool keep_absent = asked.options & kKeepAbsent;
  const int operands = static_cast<int>(problem_.operands.size());
  rule_ = decode_rule(decoder_, asked.rows, asked.outputs, operands);
  std::vector<int> dims;
  for (const Operand& operand : problem_.operands) {
    dims.push_back(static_cast<int>(operand.info.shape.size()));
  }
  validate_rule(rule_.table, dims);
  const auto absent_outputs = asked.absent_outputs.is_none()
                                  ? std::vector<bool>{}
                                  : asked.absent_outputs.cast<std::vector<bool>>();
  const RowTable table = with_replicate_row(rule_.table, absent_outputs, keep_absent);
  added_row_ = table.rows() != rule_.table.rows();
  refuse_odd_absences(table, problem_, keep_absent);
  const auto kinds = kinds_of(problem_, asked.ask_kinds, asked.options);
  expansion_ = fill_placeholders(table, kinds);
  problem_.table = std::move(expansion_.table);
  if (problem_.table.constraints.empty()) return;
  if (symbolic) unsupported("rule that asks something of sizes that are expressions");
  decode_output_shapes(asked.output_shapes);
}

// Only where rows ask something of sizes: which outputs there are, and how large, takes a while.
void BoundProblem::decode_output_shapes(py::handle ask) {
  const RowTable& table = problem_.table;
  std::vector<py::object> shapes;
  if (!ask.is_none()) shapes = ask().cast<std::vector<py::object>>();
  problem_.output_shapes.resize(table.outputs);
  for (int p = 0; p < table.outputs; ++p) {
    int dims = 0;  // that are asked about
    for (int r = 0; r < table.rows(); ++r) {
      if (table.constraints.of(r * table.width() + p))
        dims = std::max(dims, table.at(r, p).dim + 1);
    }
    if (dims == 0) continue;
    if (static_cast<std::size_t>(p) >= shapes.size() || !PyTuple_Check(shapes[p].ptr())) {
      unsupported("rule that asks something of an output of unknown size");
    }
    for (const py::handle size : shapes[p]) {
      if (!PyLong_CheckExact(size.ptr())) {
        unsupported("rule that asks something of sizes that are expressions");
      }
      problem_.output_shapes[p].push_back(size.cast<std::int64_t>());
    }
    if (static_cast<int>(problem_.output_shapes[p].size()) < dims) {
      throw RuleError("output " + std::to_string(p) + ": Expected a sharding of one of its " +
                      std::to_string(problem_.output_shapes[p].size()) +
                      " tensor dims, got tensor dim " + std::to_string(dims - 1) + ".");
    }
  }
}

}  // namespace shardprop::bindings
