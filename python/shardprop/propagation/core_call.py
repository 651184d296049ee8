"""One question to the core: an op's rule and operands in, the chosen placements out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import _core, _torch
from .._core import Option, Verdict
from .._torch import DeviceMesh, DTensorSpec, TensorMeta, make_spec
from ..model.mesh import core_mesh
from ..model.op_traits import OpTraits, traits_of
from ..model.placements import shard_kinds
from ..model.question import (
    Choice,
    NoStrategyError,
    OutputMeta,
    Question,
    is_listed,
    metas_of,
    staying_operands,
    strided_flag,
    written_cells,
)
from ..model.symbolic_guards import SymbolicSizes
from ..rules.rule import Rows, RowsRule

__all__ = [
    "Arguments",
    "Prepared",
    "answer",
    "choose",
    "chosen",
    "options",
    "prepare",
]

# What a rule function is shown in the place of its arguments.
Look = Callable[[tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]

# Plain ints: what an IntFlag adds up, or an IntEnum compares, takes a microsecond.
_IN_PLACE = int(Option.IN_PLACE)
_ALLOW_UNEVEN = int(Option.ALLOW_UNEVEN)
_PREFERS_NO_REDISTRIBUTE = int(Option.PREFERS_NO_REDISTRIBUTE)
_FORCE_GRAPH = int(Option.FORCE_GRAPH)
_KEEP_ABSENT = int(Option.KEEP_ABSENT)
_ALWAYS_SHARDS = int(Option.ALWAYS_SHARDS)
_ASK_KINDS = int(Option.ASK_KINDS)
_FOUND = int(Verdict.FOUND)

_VERDICTS: dict[int, str] = {
    Verdict.NO_STRATEGY: "no strategy passes torch's filters",
    Verdict.NO_IN_PLACE_STRATEGY: "no strategy keeps the placements that an in-place op must keep",
    Verdict.UNREACHABLE: "torch's planner finds no path",
    Verdict.TOO_LARGE: "search too large",
}

_NUMBERS = {bool, int, float, complex}


class Arguments:
    """One walk over the arguments: what the rule sees of them, and what torch checks first.

    Raises:
        _core.Unsupported: operands that torch counts in another way than this walk, or on different
            meshes.
    """

    __slots__ = ("_rule", "args_meta", "kwargs_meta", "mesh", "pinned", "question", "tensors")

    def __init__(self, question: Question, rule: RowsRule) -> None:
        self.question = question
        self._rule = rule
        different = rule.different_mesh_args
        self.tensors = 0
        self.mesh: DeviceMesh | None = None
        pinned: list[int] = []
        args_meta: list[Any] = []
        operand = 0
        for position, arg in enumerate(question.args):
            if isinstance(arg, DTensorSpec):
                may_differ = different is not None and position in different
                if may_differ:
                    pinned.append(operand)
                self._take_mesh(arg.mesh, may_differ)
                operand += 1
            args_meta.append(self._meta(arg))
        self.args_meta = tuple(args_meta)
        self.kwargs_meta = {name: self._meta(value) for name, value in question.kwargs.items()}
        self.pinned = tuple(pinned)
        if self.tensors != len(question.operands):
            raise _core.Unsupported("tensors in a list that torch does not look into")

    def rows(self, look: Look | None = None) -> Rows:
        """The rows of the rule, its function being shown the arguments as `look` makes them."""
        shown = self.args_meta, self.kwargs_meta
        args, kwargs = shown if look is None else look(*shown)
        return self._rule.rows_of(self.question.rule_op, args, kwargs, self.question.meta)

    # What the core asks only of some problems.

    def kinds(self) -> list[int]:
        """Kinds of sharding that the operands have."""
        return shard_kinds(self.question.operands)

    def symbolic_sizes(self) -> SymbolicSizes:
        """Tells the core of sizes that are expressions."""
        return SymbolicSizes(self.question.operands, self._rule.allow_unbacked_sharding)

    def output_shapes(self) -> list[tuple[Any, ...] | None]:
        """The shape of each output; None for one that is absent."""
        metas = metas_of(self.question.meta)
        return [None if meta is None else tuple(meta.shape) for meta in metas]

    def _take_mesh(self, mesh: DeviceMesh, may_differ: bool) -> None:
        """The first tensor argument's mesh counts; others must share it, save the named ones."""
        if self.mesh is None:
            self.mesh = mesh
        elif mesh is not self.mesh and not may_differ and mesh != self.mesh:
            raise _core.Unsupported("operands on different meshes")

    def _meta(self, item: Any) -> Any:
        """An argument as a rule sees it: metadata for specs, a tuple for a list of tensors."""
        if isinstance(item, DTensorSpec):
            if item.tensor_meta is None:
                raise _core.Unsupported("operand without tensor metadata")
            self.tensors += 1
            return item.tensor_meta
        if isinstance(item, (list, tuple)):
            if {*map(type, item)} <= _NUMBERS:
                return item  # a scalar for each of hundreds of list elements, maybe
            specs = [isinstance(x, DTensorSpec) for x in item]
            converted = [self._meta(x) for x in item]
            if any(specs):
                return tuple(converted) if all(specs) else converted
            return type(item)(converted)
        return item


def _num_outputs(question: Question, facts: OpTraits, rows: Sequence[Sequence[Any]]) -> int:
    """Outputs per row, as torch counts them before it looks at the rows' width."""
    meta = question.meta
    if not rows:
        return len(metas_of(meta))
    if _torch.IS_215_OR_LATER:
        if is_listed(meta):
            return len(meta)
        if facts.any_list_return:
            return len(rows[0]) - len(question.operands)
    return facts.tensor_returns


def _fixed(
    question: Question, rule: RowsRule, facts: OpTraits, outputs: int
) -> list[tuple[int, DTensorSpec]] | None:
    """Cells of a row (by position) that must be what a tensor is, with that tensor."""
    fixed: list[tuple[int, DTensorSpec]] = []
    for index, name in enumerate(facts.out_arguments):
        spec = question.kwargs.get(name)
        if isinstance(spec, DTensorSpec):
            fixed.append((index, spec))
    if rule.leaves_unmovable:
        staying = staying_operands(question)
        fixed += [(outputs + index, question.operands[index]) for index in staying]
    if rule.leaves_written:
        cells = written_cells(question, outputs)
        fixed += [(cell, question.operands[index]) for cell, index in cells]
    return fixed or None


def _absent_outputs(meta: OutputMeta) -> list[bool] | None:
    # A single TensorMeta is a tuple to Python, and 2.13 walks it; no field of it is None.
    return [m is None for m in meta] if is_listed(meta) else None


def _filter(
    question: Question, rule: RowsRule, mesh: DeviceMesh, outputs: int
) -> Callable[[tuple[Any, ...]], bool] | None:
    """torch 2.15's filter over whole strategies; the core asks it of candidates in cost order."""
    full_mesh_filter = rule.accepts
    if full_mesh_filter is None:
        return None
    container = is_listed(question.meta) and traits_of(question.rule_op).first_return == "list"
    # An op without outputs is not filtered; one whose list of outputs is empty is.
    if outputs == 0 and not container:
        return None
    schema = _torch.strategy_schema(question.rule_op, question.args, question.kwargs)

    def accepts(placements: tuple[Any, ...]) -> bool:
        specs = _candidate_specs(question, mesh, placements, outputs)
        out = tuple(specs[:outputs]) if outputs > 1 or container else specs[0]
        return bool(full_mesh_filter(mesh, schema, specs[outputs:], out))

    return accepts


def _candidate_specs(
    question: Question, mesh: DeviceMesh, placements: tuple[Any, ...], outputs: int
) -> list[DTensorSpec | None]:
    """Specs of a candidate as torch would hand them to a filter."""
    metas: list[TensorMeta | None] = []
    if is_listed(question.meta):
        # torch numbers the metadata by the outputs that are not absent.
        present = 0
        for placement in placements[:outputs]:
            metas.append(question.meta[present] if placement is not None else None)
            present += placement is not None
    else:
        metas = [question.meta] * outputs  # type: ignore[list-item]
    metas += [operand.tensor_meta for operand in question.operands]
    flag = strided_flag(question.operands)
    return [
        None if p is None else make_spec(mesh, p, meta, flag is not False)
        for p, meta in zip(placements, metas, strict=True)
    ]


def options(question: Question, rule: RowsRule) -> int:
    """Bits that the core knows how to read: what torch does differently for this op and rule."""
    bits = _KEEP_ABSENT if _torch.IS_215_OR_LATER else 0
    if _torch.forces_graph_plan():
        bits |= _FORCE_GRAPH
    if rule.keeps_written_in_place and traits_of(question.op).in_place:
        bits |= _IN_PLACE
    if rule.allow_uneven_sharding:
        bits |= _ALLOW_UNEVEN
    if not question.is_element:
        bits |= _PREFERS_NO_REDISTRIBUTE
    return bits


class Prepared(NamedTuple):
    """The problem that a question is to the core, and what turns its answer into a `Choice`.

    A `Question` is an op with its arguments; its problem is what the core reads of it and of the
    rule, decoded once, however often it is then asked.
    """

    problem: _core.Problem
    outputs: int
    mesh: DeviceMesh
    pinned: tuple[int, ...]
    is_sequence: bool


def prepare(
    question: Question,
    rule: RowsRule,
    rows: Rows | None = None,
    arguments: Arguments | None = None,
    always_shards: bool = False,
    kinds: Sequence[int] | None = None,
) -> Prepared:
    """Make the core's problem of a question; ask the rule for its rows unless they are given.

    `arguments` is what a walk over them found, if there was one. `always_shards`: fill
    placeholders with plain shards even where no operand has one (torch does not).
    `kinds`: fill them with these kinds of `shard_kinds` whatever the operands have, and take no
    tensor for one that stays where it is.

    Raises:
        _core.Unsupported: the core does not handle this; its text is the reason.
        _core.RuleError: the rule is malformed; its text names row and operand.
        Exception: what the rule function raises.
    """
    if arguments is None:
        arguments = Arguments(question, rule)
    mesh = question.mesh if arguments.mesh is None else arguments.mesh
    if mesh is None:
        raise _core.Unsupported("op without a mesh")
    facts = traits_of(question.rule_op)
    if rows is None:
        rows = arguments.rows()
    outputs = rule.outputs
    if outputs is None:
        outputs = _num_outputs(question, facts, rows)
    listed = facts.first_return == "list" and is_listed(question.meta)
    bits = options(question, rule) | (_ALWAYS_SHARDS if always_shards else 0)
    fixed: list[tuple[int, DTensorSpec]] | None = None
    if kinds is None:
        fixed = _fixed(question, rule, facts, outputs)
    else:
        bits = (bits & ~_IN_PLACE) | _ASK_KINDS
    problem = _core.Problem(
        core_mesh(mesh),
        mesh,
        rows,
        outputs,
        question.operands,
        question.positional,
        bits,
        arguments.kinds if kinds is None else lambda: kinds,
        _torch.are_we_tracing,
        fixed,
        _absent_outputs(question.meta),
        arguments.pinned,
        _filter(question, rule, mesh, outputs),
        arguments.symbolic_sizes,
        arguments.output_shapes if rule.leaves_unmovable else None,
    )
    is_sequence = listed and _torch.IS_215_OR_LATER
    return Prepared(problem, outputs, mesh, arguments.pinned, is_sequence)


def answer(prepared: Prepared) -> Choice:
    """Let the core decide.

    Raises:
        _core.Unsupported: the core does not handle this; its text is the reason.
        NoStrategyError: there is nothing to choose, and torch would raise.
    """
    return chosen(prepared, *_core.decide(prepared.problem))


def chosen(
    prepared: Prepared,
    verdict: int,
    placements: tuple[Any, ...],
    cost: float,
    operand_costs: list[float],
    nodes: int,
) -> Choice:
    """What the core answered, as a `Choice`.

    Raises:
        As `answer` does.
    """
    if verdict != _FOUND:
        declined = _core.Unsupported if verdict == Verdict.TOO_LARGE else NoStrategyError
        raise declined(_VERDICTS[verdict])
    outputs = prepared.outputs
    return Choice(
        placements[:outputs],
        placements[outputs:],
        prepared.mesh,
        cost,
        operand_costs,
        nodes,
        prepared.pinned,
        prepared.is_sequence,
    )


def choose(question: Question, rule: RowsRule) -> Choice:
    """Ask the core.

    Raises:
        As `prepare` and `answer` do.
    """
    return answer(prepare(question, rule))
