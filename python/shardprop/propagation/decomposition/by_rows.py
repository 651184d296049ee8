"""The decision of a call from its rule's rows alone, where nothing beside them counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ... import _torch
from ..._torch import (
    DeviceMesh,
    DTensorSpec,
    OpOverload,
    OpSchema,
    OutputSharding,
    Placement,
    Shard,
    StridedShard,
    TensorMeta,
)
from ...corrections.by_op import corrections_of
from ...model.op_traits import traits_of
from ...model.question import Choice, OutputMeta, question_of
from ...rules import torch_registry
from ...rules.rule import DecompositionRule, Rows, RowsRule, rule_of_entry
from ..answer import output_sharding
from ..core_call import choose
from .lookup import Outputs, RowTable
from .program import Call, Declined, Program, Ref, refs

__all__ = ["ByRows", "DimLayout", "DimLayouts", "NotPlain", "recorded"]


class DimLayout(NamedTuple):
    """What a value has on the one mesh dim.

    Attributes:
        placement: Its placement.
        strided_is_order: Does a strided shard stand for a shard order? None: as torch has it by
            default.
    """

    placement: Placement
    strided_is_order: bool | None


# Per output its layout, None for one without a spec.
DimLayouts = tuple[DimLayout | None, ...]


class NotPlain(Exception):
    """The call takes a whole decision."""


class _RowsOnce(RowsRule):
    """A rule whose rows, which no placement changes, are made once.

    They are those that ask nothing of sizes, for on a mesh of one rank every size would do.
    """

    def __init__(self, rule: RowsRule) -> None:
        self._rule = rule
        self.rows: Rows | None = None
        self.outputs = rule.outputs
        self.different_mesh_args = rule.different_mesh_args
        self.allow_uneven_sharding = rule.allow_uneven_sharding
        self.allow_unbacked_sharding = rule.allow_unbacked_sharding
        self.accepts = rule.accepts

    def rows_of(
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], meta: OutputMeta
    ) -> Rows:
        """The rows of the first question, for all questions."""
        if self.rows is None:
            self.rows = self._rule.rows_for_any_sizes(op, args, kwargs)
        return self.rows


class ByRows:
    """One call.

    Args:
        program: The program it belongs to.
        call: The call.
        mesh: torch's mesh of one rank.

    Attributes:
        rule: torch's rows, made once; None for a call that decomposes.
        corrections: Of some calls the rows are wrong, also where nothing moves: a whole decision
            sees to that.

    Raises:
        NotPlain: a list op, or one with a list of tensors that torch does not look into.
    """

    def __init__(self, program: Program, call: Call, mesh: DeviceMesh) -> None:
        if traits_of(call.op).is_list_op:
            raise NotPlain
        pytree = torch_registry.looks_into_lists(call.op)
        self._positional = _operands(call.args, pytree)
        self._keyword = _operands(call.kwargs.values(), pytree)
        if {*self._positional, *self._keyword} != {*call.inputs}:
            raise NotPlain
        self._program = program
        self._call = call
        self._mesh = mesh
        entry = torch_registry.single_dim_entry(call.op)
        self.rule = None if entry is None else _RowsOnce(rule_of_entry(call.op, entry))
        returns_written = bool(traits_of(call.op).returned)
        self.corrections = [
            c
            for c in corrections_of(call.op)
            if call.op in c.in_rows and (returns_written or not c.is_of_moves)
        ]
        self._table: RowTable | None = None
        # torch's rewrites of arguments may fail, so they have to be made.
        self._rewritten = traits_of(call.op).rewrites_arguments

    def from_table(self, layouts: dict[int, DimLayout]) -> tuple[DimLayouts | None] | None:
        """The outputs' layouts (None if an input has to move), if a look into the rows tells."""
        if self.rule is None or self._keyword or self._rewritten:
            return None
        given = [layouts[value].placement for value in self._positional]
        if any(isinstance(p, StridedShard) for p in given):
            return None
        if self._out_of_range(given):
            # No row offers a shard of a tensor dim that is not there, so it has to move.
            return (None,)
        inputs = tuple(given)
        if self._table is None or not self._table.knows(inputs):
            return None
        outputs = self._table.outputs(inputs)
        return (None if outputs is None else _layouts(self._call, outputs),)

    def from_core(
        self, schema: OpSchema, layouts: dict[int, DimLayout], rule: _RowsOnce | DecompositionRule
    ) -> DimLayouts | None:
        """The outputs' layouts by the core's choice among the rows; None if an input moves.

        Raises:
            NotPlain: an input has a shard of a tensor dim that it does not have.
            Exception: as `choose` and `output_sharding` do.
        """
        given = [layouts[value].placement for value in self._positional]
        if self._out_of_range(given):
            raise NotPlain
        first = rule is self.rule and self._table is None
        if first:
            _torch.validate_meta_count(schema, self._call.meta)  # torch gives up the op here
        question = question_of(schema, self._call.meta, self._mesh)
        choice = choose(question, rule)
        if first:
            self._table = self._make_table(choice)
        if self._rewritten or any(isinstance(p.placement, StridedShard) for p in layouts.values()):
            # A strided shard brings a flag along, which the specs of a whole decision hand on.
            return recorded(self._call, schema, output_sharding(schema, question, choice))
        moved = any(
            wanted[0] is not placement and wanted[0] != placement
            for placement, wanted in zip(given, choice.operands, strict=False)
        )
        outputs = tuple(None if p is None else p[0] for p in choice.outputs)
        return None if moved else _layouts(self._call, outputs)

    def _out_of_range(self, placements: list[Placement]) -> bool:
        return any(
            isinstance(p, Shard) and p.dim >= len(self._program.metas[value].shape)
            for value, p in zip(self._positional, placements, strict=True)
        )

    def _make_table(self, choice: Choice) -> RowTable | None:
        if self.rule is None or self._keyword:
            return None
        shapes = [self._program.metas[value].shape for value in self._positional]
        return RowTable(self._call.op, self.rule, self.rule.rows or (), len(choice.outputs), shapes)


def _operands(items: Iterable[Any], pytree: bool) -> tuple[int, ...]:
    """The values that torch counts as operands."""
    if pytree:
        return tuple(ref.value for item in items for ref in refs(item))
    return tuple(item.value for item in items if isinstance(item, Ref))


def _layouts(call: Call, outputs: Outputs) -> DimLayouts:
    """What torch hangs on the tensors that are returned, for one placement (or several)."""
    facts = traits_of(call.op)
    if not outputs or not facts.returns_tensors:
        return (None,) * len(call.outputs)
    if len(outputs) == 1 and facts.returns_tuple:
        outputs = outputs * facts.returns
    listed = _torch.IS_215_OR_LATER and facts.first_return == "list"
    one_spec = len(outputs) == 1 and not facts.returns_tuple and not listed
    if one_spec != isinstance(call.meta, TensorMeta) or len(outputs) != len(call.outputs):
        raise NotPlain
    return tuple(None if p is None else DimLayout(p, None) for p in outputs)


def recorded(call: Call, schema: OpSchema, sharding: OutputSharding) -> DimLayouts | None:
    """What torch hangs on the tensors that are returned, for a whole decision; None if an input
    has to move."""
    wanted = sharding.redistribute_schema
    if sharding.needs_redistribute and wanted is not None:
        # torch compares positional arguments only, and the sizes it rewrote do not count.
        for spec, other in zip(schema.args_spec, wanted.args_spec, strict=False):
            if spec.placements != other.placements:
                return None
    count = len(call.outputs)
    output = sharding.output_spec
    if isinstance(output, (list, tuple)):
        if isinstance(call.meta, TensorMeta):
            raise Declined(f"{call.op}: several specs for one output")
        layouts = [None if spec is None else _layout(spec) for spec in output]
        return (*layouts, *[None] * count)[:count]
    if isinstance(output, DTensorSpec) and isinstance(call.meta, TensorMeta):
        return (_layout(output),)
    return (None,) * count


def _layout(spec: DTensorSpec) -> DimLayout:
    placement = spec.placements[0]
    strided = isinstance(placement, StridedShard)
    return DimLayout(placement, spec.use_strided_shard_as_shard_order if strided else None)
