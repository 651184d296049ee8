#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "decode.h"
#include "pricer.h"
#include "register.h"
#include "search.h"
#include "symbolic.h"

namespace shardprop::bindings {
namespace {

// Bits of the `options` argument; python/shardprop/engine.py names them too.
enum Option : unsigned {
  kInPlace = 1,
  kAllowUneven = 2,
  kPrefersNoRedistribute = 4,
  kForceGraph = 8,
  kKeepAbsent = 16,
};

// A problem whose cells can be turned back into Python placements.
struct BoundProblem {
  Decoder decoder;
  Problem problem;
  DecodedRule rule;
  Expansion expansion;
  bool added_row = false;  // row 0 of the rule is the all-Replicate row that we put first
  bool symbolic = false;   // some size is an expression

  [[nodiscard]] py::object object(int row, int position) const {
    const int source = expansion.source[row] - (added_row ? 1 : 0);
    const py::handle cell = source < 0
                                ? py::handle()
                                : py::handle(rule.objects[source * rule.table.width() + position]);
    return fill_object(cell, problem.table.at(row, position));
  }

  // Per position (outputs, then operands) the placements over the mesh; None for an absent output.
  [[nodiscard]] py::tuple placements(const Rows& rows) const {
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
};

std::vector<ShardKind> kinds_of(const Problem& problem, py::handle ask_kinds) {
  bool plain = false;
  for (const Operand& operand : problem.operands) {
    // The order of several kinds is that of a Python set, which only Python knows.
    if (has_strided(operand.layout)) return ask_kinds().cast<std::vector<ShardKind>>();
    for (int m = 0; m < operand.layout.ndim; ++m) plain |= operand.layout.placements[m].is_shard();
  }
  return plain ? std::vector<ShardKind>{0} : std::vector<ShardKind>{};
}

void decode_operands(BoundProblem& bound, py::handle device_mesh, py::handle specs,
                     const std::vector<int>& pinned, bool force_graph) {
  Problem& problem = bound.problem;
  std::vector<py::object> metas;
  std::vector<std::string> growths;
  bool any_strided = false, any_ordered = force_graph;
  for (const py::handle spec : specs) {
    DecodedSpec decoded = bound.decoder.spec(spec, Sizes::kSymbolic);
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
  bound.symbolic = !growths.empty();
  // To compare metadata would compare expressions, and guard them.
  if (bound.symbolic) return;
  if (!any_strided && !any_ordered) return;  // no graph plan, so no planner to share
  for (std::size_t i = 0; i < metas.size(); ++i) {
    const auto twin = std::find_if(metas.begin(), metas.begin() + static_cast<std::ptrdiff_t>(i),
                                   [&](const py::object& meta) { return meta.equal(metas[i]); });
    problem.operands[i].planner = static_cast<int>(twin - metas.begin());
  }
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
    if (problem.in_place || !problem.fixed_outputs.empty() || (asserts && problem.mesh.ndim > 1)) {
      throw Unsupported("rule whose output is absent in some rows only");
    }
  }
}

void decode_table(BoundProblem& bound, py::handle rows, int outputs, py::handle ask_kinds,
                  const std::vector<bool>& absent_outputs, bool keep_absent) {
  Problem& problem = bound.problem;
  const int operands = static_cast<int>(problem.operands.size());
  bound.rule = decode_rule(bound.decoder, rows, outputs, operands);
  std::vector<int> dims;
  for (const Operand& operand : problem.operands) {
    dims.push_back(static_cast<int>(operand.info.shape.size()));
  }
  validate_rule(bound.rule.table, dims);
  const RowTable table = with_replicate_row(bound.rule.table, absent_outputs, keep_absent);
  bound.added_row = table.rows() != bound.rule.table.rows();
  refuse_odd_absences(table, problem, keep_absent);
  const auto kinds = kinds_of(problem, ask_kinds);
  bound.expansion = fill_placeholders(table, kinds);
  problem.table = std::move(bound.expansion.table);
}

// A strategy as Python sees it: wanted placements per operand, and what each costs now.
py::tuple as_python(const BoundProblem& bound, const Strategy& strategy) {
  const py::tuple all = bound.placements(strategy.rows);
  return py::make_tuple(all[py::slice(bound.problem.table.outputs, bound.problem.table.width(), 1)],
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

py::tuple decide_bound(const BoundMesh& mesh, py::handle device_mesh, py::handle rows, int outputs,
                       py::handle specs, int positional, unsigned options, py::handle ask_kinds,
                       py::handle ask_tracing, py::handle fixed, py::handle absent_outputs,
                       py::handle pinned, py::handle accepts, py::handle symbolic) {
  if (outputs < 0 || outputs > 4096) throw std::invalid_argument("Expected 0 to 4096 outputs.");
  BoundProblem bound;
  Problem& problem = bound.problem;
  problem.mesh = mesh.mesh;
  problem.member = mesh.member;
  problem.in_place = options & kInPlace;
  problem.allow_uneven = options & kAllowUneven;
  problem.prefers_no_redistribute = options & kPrefersNoRedistribute;
  problem.force_graph = options & kForceGraph;
  problem.dialect = environment().dialect;
  decode_operands(bound, device_mesh, specs, pinned.cast<std::vector<int>>(), problem.force_graph);
  if (problem.operands.empty()) throw Unsupported("op without tensor operands");
  if (positional < 0 || positional > static_cast<int>(problem.operands.size())) {
    throw std::invalid_argument("Expected at most as many positional operands as operands.");
  }
  problem.positional = positional;
  if (!fixed.is_none()) {
    for (const py::handle item : fixed) {
      const auto [position, spec] = item.cast<std::pair<int, py::object>>();
      if (position < 0 || position >= outputs) {
        throw std::invalid_argument("Expected the position of an output.");
      }
      const Layout layout = bound.decoder.spec(spec, Sizes::kSymbolic).layout;
      if (layout.ndim != problem.mesh.ndim) throw Unsupported("out= argument on another mesh");
      problem.fixed_outputs.push_back({position, layout});
    }
  }
  decode_table(
      bound, rows, outputs, ask_kinds,
      absent_outputs.is_none() ? std::vector<bool>{} : absent_outputs.cast<std::vector<bool>>(),
      options & kKeepAbsent);
  problem.op_hashes = bound.decoder.op_hashes();
  if (!accepts.is_none()) {
    problem.accepts = [&bound, accepts](const Rows& chosen) {
      return accepts(bound.placements(chosen)).cast<bool>();
    };
  }
  // Only then does it matter, and torch takes microseconds to say.
  const bool has_history = depends_on_history(problem);
  if (has_history && bound.symbolic) throw Unsupported("symbolic shape in a graph plan");
  if (has_history) problem.fresh_planners = ask_tracing().cast<bool>();
  const SizeOracle oracle = bound.symbolic ? size_oracle(bound, symbolic()) : SizeOracle{};
  if (bound.symbolic) problem.sizes = &oracle;
  const Decision decision = bound.symbolic ? decide_symbolic(problem) : decide(problem);
  if (decision.verdict != Verdict::kFound) {
    return py::make_tuple(static_cast<int>(decision.verdict), py::none(), py::none(), py::none(),
                          decision.nodes);
  }
  return py::make_tuple(0, bound.placements(decision.rows), decision.cost,
                        py::cast(decision.operand_costs), decision.nodes);
}

}  // namespace

void register_decide(py::module_& module) {
  module.def("decide", &decide_bound, py::arg("mesh"), py::arg("device_mesh"), py::arg("rows"),
             py::arg("outputs"), py::arg("specs"), py::arg("positional"), py::arg("options"),
             py::arg("ask_kinds"), py::arg("ask_tracing"), py::arg("fixed"),
             py::arg("absent_outputs"), py::arg("pinned"), py::arg("accepts"), py::arg("symbolic"));
}

}  // namespace shardprop::bindings
