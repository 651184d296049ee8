"""From an op without a rule to rows for one mesh dim: trace once, walk, hold both."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import torch

from ... import _torch
from ..._torch import (
    DTensorSpec,
    OpOverload,
    OpSchema,
    Partial,
    Placement,
    Replicate,
    Shard,
    StridedShard,
    contiguous_meta,
)
from ...model.op_traits import traits_of
from ...model.question import OutputMeta
from ...rules import torch_registry
from ...rules.rule import Chooser, DecompositionRule
from ...support.cache import BoundedMap
from .extensions import is_random
from .history import depends_on_order
from .local_run import runs_alike
from .nested_decisions import Inside, NestedDecisions
from .options import operand_options
from .program import Declined, OrderMatters, Program, Refused
from .template import Template, template_of
from .trace import trace
from .walk import Passed, walk

__all__ = ["Decomposer"]

_MOST_PROGRAMS = 512
_MOST_ROWS = 1024

# A _MaskPartial holds a buffer, and a user's placement anything.
_VALUES = frozenset({Replicate, Shard, StridedShard, Partial})


Made = TypeVar("Made")


class Decide(Protocol):
    """The decision of an op whose output metadata is known; it answers (and raises) as torch."""

    def __call__(self, schema: OpSchema, meta: OutputMeta, chooser: Chooser) -> Inside: ...


class _Traced(NamedTuple):
    """A program, and whether torch's answer for it depends on the order of its questions."""

    program: Program
    in_order: bool


class _Decomposed(NamedTuple):
    """An op without a rule and what it runs.

    `on_shards` holds what it runs on shapes that ranks have, by its program and these; in place of
    what could not be had, why not."""

    op: OpOverload
    decomposition: Callable[..., Any]
    template: Template
    program: Program
    on_shards: BoundedMap[Program | str]

    def on_shapes(self, shapes: Sequence[torch.Size]) -> Program:
        """What it runs for contiguous operands of other shapes.

        Raises:
            Declined: that could not be had.
        """

        def traced() -> Program:
            args, kwargs, specs, metas, _ = self.template
            there = [contiguous_meta(s, m.dtype) for s, m in zip(shapes, metas, strict=True)]
            mesh = _torch.decomposition_mesh(specs[0].mesh.device_type)
            return trace(self.decomposition, args, kwargs, there, mesh)

        return _held_or_made(self.on_shards, (self.program, *shapes), traced)

    @property
    def is_placed(self) -> bool:
        """Is an operand anything but replicated?"""
        return any(not p.is_replicate() for spec in self.template.specs for p in spec.placements)

    @property
    def mesh_sizes(self) -> tuple[int, ...]:
        """Ranks per mesh dim."""
        return tuple(self.template.specs[0].mesh.shape)


class _How(NamedTuple):
    """How an op is asked about.

    Attributes:
        chooser: What the calls inside are decided under.
        nested: It is called inside another decomposition.
        factories: Calls of factories are to be answered, too.
        refused: torch refuses it, so that every row has to be checked.
    """

    chooser: Chooser
    nested: bool
    factories: bool
    refused: bool = False


class Decomposer:
    """Rows of ops that have no rule.

    Attributes:
        decide: Decides the calls inside that are not decided by rows alone. To be set.
    """

    decide: Decide

    def __init__(self) -> None:
        # In place of what could not be had: why not.
        self._programs: BoundedMap[_Traced | str] = BoundedMap("decompositions", _MOST_PROGRAMS)
        self._on_shards: BoundedMap[Program | str] = BoundedMap(
            "decompositions on shards", _MOST_PROGRAMS
        )
        # With the rules they were made with and what they were decided under; one registered since
        # then makes them worthless.
        self._nested: BoundedMap[tuple[object, NestedDecisions]] = BoundedMap(
            "decisions in decompositions", _MOST_PROGRAMS
        )
        self._rows: BoundedMap[tuple[object, DecompositionRule | Declined]] = BoundedMap(
            "rows of decompositions", _MOST_ROWS
        )

    def clear(self) -> None:
        """Forget all programs and rows."""
        self._programs.clear()
        self._on_shards.clear()
        self._nested.clear()
        self._rows.clear()

    def rows(self, schema: OpSchema, chooser: Chooser) -> DecompositionRule:
        """The rows that torch finds by tracing the decomposition, in torch's order.

        The calls inside are decided by `chooser`. Where that corrects torch, rows are left out that
        do not hold on local tensors (`local_run`), and ops are decided that torch refuses where an
        answer is provably right (`extensions`).

        Raises:
            Declined: torch is to answer.
        """
        try:
            mesh = _torch.real_mesh(schema.op, schema.args_schema, schema.kwargs_schema)
        except ValueError:
            raise Declined("there is no operand") from None
        # Of a call inside another decomposition the answer could not say that torch refuses it, and
        # the outer one would go unchecked.
        nested = mesh is _torch.decomposition_mesh(mesh.device_type)
        beyond = chooser.corrects and not nested and not _torch.are_we_tracing()
        with _torch.no_local_tensors():
            try:
                return self._rows_for(schema, _How(chooser, nested, beyond))
            except Refused:
                if not beyond:
                    raise
            with _torch.outside_dispatch():
                how = _How(chooser, nested, factories=True, refused=True)
                return self._rows_for(schema, how)

    def _rows_for(self, schema: OpSchema, how: _How) -> DecompositionRule:
        decomposition = _decomposition_of(schema.op)
        _torch.ensure_decomposition_schema_info(schema.op)
        template = template_of(schema)
        program, in_order = self._traced(schema.op, decomposition, template)
        asked = _Decomposed(schema.op, decomposition, template, program, self._on_shards)
        # Where torch refuses the op there are no answers of its cache to follow; the order in which
        # it tries placements is that of a set, another one in each process.
        refused = how.refused or (how.factories and any(c.is_factory for c in program.calls))
        in_order = in_order and not refused
        if in_order and (how.nested or _torch.are_we_tracing()):
            raise OrderMatters("calls whose decisions torch takes from its cache")
        if in_order or not _are_values(template.specs):
            return _found(asked, how, self._nested_decisions(asked, how, in_order))
        return self._cached_rows(asked, how)

    def _traced(
        self, op: OpOverload, decomposition: Callable[..., Any], template: Template
    ) -> _Traced:
        device_type = template.specs[0].mesh.device_type
        registered = _torch.registered_decomposition(op)
        key = (op, registered, template.key, device_type, _torch.dispatch_state())

        def traced() -> _Traced:
            mesh = _torch.decomposition_mesh(device_type)
            program = trace(decomposition, template.args, template.kwargs, template.metas, mesh)
            return _Traced(program, depends_on_order(program))

        return _held_or_made(self._programs, key, traced)

    def _cached_rows(self, asked: _Decomposed, how: _How) -> DecompositionRule:
        rules = [torch_registry.rules_of(call.op) for call in asked.program.calls]
        placements = tuple(spec.placements for spec in asked.template.specs)
        key = (asked.program, how, placements, asked.mesh_sizes)
        cached = self._rows.get(key)
        if cached is None or cached[0] != rules:
            cached = (rules, _found_or_declined(asked, how, self._cached_nested(asked, how, rules)))
            self._rows.put(key, cached)
        if isinstance(cached[1], Declined):
            raise type(cached[1])(*cached[1].args)
        return cached[1]

    def _cached_nested(self, asked: _Decomposed, how: _How, rules: object) -> NestedDecisions:
        """Decisions of the program's calls, shared by all placements that are asked about."""
        key = (asked.program, how)
        cached = self._nested.get(key)
        if cached is None or cached[0] != rules:
            cached = (rules, self._nested_decisions(asked, how, in_order=False))
            self._nested.put(key, cached)
        return cached[1]

    def _nested_decisions(self, asked: _Decomposed, how: _How, in_order: bool) -> NestedDecisions:
        def decompose(schema: OpSchema) -> DecompositionRule | None:
            try:
                return self._rows_for(schema, _How(how.chooser, True, how.factories))
            except OrderMatters:
                raise
            except Declined:
                return None

        def decide(schema: OpSchema, meta: OutputMeta) -> Inside:
            return self.decide(schema, meta, how.chooser)

        mesh = _torch.decomposition_mesh(asked.template.specs[0].mesh.device_type)
        inner = NestedDecisions(asked.program, mesh, decide, decompose, how.factories, in_order)
        inner.beyond_torch = how.refused
        return inner


def _held_or_made(held: BoundedMap[Made | str], key: Hashable, make: Callable[[], Made]) -> Made:
    """What is held under a key, or what is made and held; in place of what cannot be had, why not.

    Raises:
        Declined: it cannot be had.
    """
    known = held.get(key)
    if known is None:
        try:
            known = make()
        except Declined as declined:
            known = str(declined)
        held.put(key, known)
    if isinstance(known, str):
        raise Declined(known)
    return known


def _decomposition_of(op: OpOverload) -> Callable[..., Any]:
    try:
        decomposition = _torch.decomposition_of(op)
    except RuntimeError as error:
        raise Declined(f"torch does not know {op}") from error
    if decomposition is None:
        raise Declined("there is no decomposition")
    return decomposition


def _are_values(specs: Sequence[DTensorSpec]) -> bool:
    """Are all placements fully told by their value?"""
    return all(type(p) in _VALUES for spec in specs for p in spec.placements)


def _found(asked: _Decomposed, how: _How, inner: NestedDecisions) -> DecompositionRule:
    options = operand_options(asked.template.specs)
    passed = walk(asked.program, options, inner.outputs, inner.in_order)
    if inner.beyond_torch and is_random(asked.program):
        raise Declined("random numbers in an op that torch refuses")
    # What is called inside of another is checked with that.
    checked = inner.beyond_torch or (how.chooser.corrects and not how.nested)
    right = _right_everywhere(asked, passed) if checked else passed
    rows = _rows_of(asked, right)
    is_less = len(right) < len(passed) and not inner.beyond_torch
    as_torch = _rows_of(asked, passed) if is_less else None
    outputs = len(asked.program.results)
    fault = inner.correction if asked.is_placed else None
    leaves_written = checked and traits_of(asked.op).mutates
    return DecompositionRule(rows, outputs, inner.beyond_torch, fault, as_torch, leaves_written)


def _found_or_declined(
    asked: _Decomposed, how: _How, inner: NestedDecisions
) -> DecompositionRule | Declined:
    try:
        return _found(asked, how, inner)
    except Declined as declined:
        return type(declined)(*declined.args)  # without the frames it came through


def _right_everywhere(asked: _Decomposed, passed: Sequence[Passed]) -> list[Passed]:
    """Those on which the op does on local tensors what its decomposition has promised."""
    rewritten = traits_of(asked.op).rewrites_arguments
    return [
        each
        for each in passed
        if runs_alike(asked.program, each.layouts, asked.on_shapes, asked.mesh_sizes, rewritten)
    ]


def _rows_of(asked: _Decomposed, passed: Sequence[Passed]) -> list[list[Placement]]:
    program = asked.program
    rows = []
    for _, layouts in passed:
        row = [layouts[v] for v in (*program.results, *range(program.operands))]
        if any(layout is None for layout in row):
            raise Declined("an output without a spec")
        rows.append([layout.placement for layout in row if layout is not None])
    if not any(all(type(p) is Replicate for p in row) for row in rows):
        raise Declined("the decomposition does not pass with all operands replicated")
    if len(traits_of(asked.op).out_arguments) > len(program.results):
        raise Declined("out= arguments that the decomposition does not return")
    return rows
