"""The rows that a rule claims for a call on one mesh dim."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch

from ... import _torch
from ..._torch import (
    DTensorSpec,
    OpOverload,
    OpSchema,
    OutputSharding,
    Placement,
    ShardingPlaceholder,
    is_shard,
    make_spec,
    meta_of,
)
from ...model.op_traits import traits_of
from ...model.placements import Placements
from ...propagation.answer import wanted_specs
from ...propagation.propagator import current_policy, propagate_sharding
from ...propagation.route import Who, route, route_of
from ...rules import torch_registry
from ...rules.rule import Origin, RowsRule
from ...rules.torch_registry import TorchsWay
from ..settings import Settings
from ..simulator.candidates import shard
from ..simulator.execution import Executable, Outcome
from ..simulator.ranks import local_shapes
from ..simulator.simulation import Row, is_replicated
from .meshes import mesh_of

__all__ = ["Claimant", "Claims", "as_meta", "is_enough", "is_torchs_fill", "kind_of_rule"]

# A rule that has refused so many placements, and taken none, is asked no further.
_REFUSALS = 200

_TOO_SMALL = "row with a shard of a dim that the call has too small or not at all"
_UNFULFILLED = "row that asks for other sizes than the call has"
_MALFORMED = "row with more or fewer outputs than the call has, for which torch refuses the op"
_HANDLED = "rows: torch's dispatcher hands the op to a function that asks for none"
_CORRECTED = "row in whose place another decision is in force"

Which = Literal["active", "torch"]


@dataclass
class Claims:
    """What a rule claims for a call.

    Attributes:
        rows: The rows, without the one where all is replicated.
        listed: How many rows there are, whatever sizes they ask for, if the rule lists them.
        skipped: Rows left out, counted by reason.
    """

    rows: list[Row] = field(default_factory=list)
    listed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)


class _Ask(NamedTuple):
    """A placeholder that asks something of sizes, and the tensor whose sizes they are.

    Attributes:
        cell: The placeholder.
        shape: The shape of the whole tensor.
        place: Its place among the outputs, or the operands.
        is_output: Is it among the outputs?
    """

    cell: Any
    shape: tuple[int, ...]
    place: int
    is_output: bool


_FILLS = (torch.ops.aten.fill_.Scalar, torch.ops.aten.fill_.Tensor)


def is_torchs_fill(op: OpOverload) -> bool:
    """Is it `fill_`, decided by torch's rule? Of what is pending it fills each rank's part."""
    rule = route_of(op).rule
    return op in _FILLS and rule is not None and rule.origin is not Origin.REGISTERED


def kind_of_rule(op: _torch.OpOverload, which: Which) -> str:
    """What claims the rows, in the words of `OpReport.rule`."""
    found = route_of(op)
    rule = None if found.rule is None else found.rule.as_rows
    if rule is not None and rule.is_torchs_entry:
        is_torchs = rule.origin is Origin.TORCH
        return "torch single-dim rule" if is_torchs else "registered rule"
    if found.who is Who.HANDLER:
        return found.facts.kind.value
    if which == "active" and found.who in (Who.CORE, Who.READ_OUT):
        return "own rule"
    way = torch_registry.torchs_way(op)
    if way is not TorchsWay.DECOMPOSITION:
        return f"torch {way.value}" if torch_registry.is_rule_torchs(op) else "registered rule"
    return "decomposition" if _torch.has_decomposition(op) else "none"


class Claimant:
    """The rule of a call's op, asked for what it claims."""

    def __init__(self, executable: Executable, expected: Outcome, settings: Settings) -> None:
        self._executable = executable
        self._outputs = len(expected.outputs)
        self._aliases = executable.alias_of(self._outputs)
        self._factors = settings.strided_factors
        self._active = settings.rule == "active"
        self._expected = expected.outputs
        self._asks: dict[Row, list[_Ask]] = {}
        self._origins: dict[Row, str] = {}
        self._rule = None if traits_of(executable.call.op).is_list_op else self._listing_rule()

    def _listing_rule(self) -> RowsRule | None:
        """The rule that lists its rows, if the op has one of those."""
        rule = route_of(self._executable.call.op).rule
        rows = None if rule is None else rule.as_rows
        return rows if rows is None or rows.is_torchs_entry or self._active else None

    def claims(
        self,
        ranks: int,
        combinations: Iterable[tuple[Placement, ...]],
        deadline: float = math.inf,
    ) -> Claims:
        """The rows that can be used on a mesh dim of `ranks` ranks.

        `combinations` are the placements of the operands that a rule is asked about which does not
        list its rows, until `deadline`, a time as of ``time.monotonic``.

        Raises:
            Exception: what the rule raises.
        """
        found = Claims()
        if route_of(self._executable.call.op).who is Who.HANDLER:
            found.skipped[_HANDLED] += 1
        elif self._rule is not None:
            self._take_listed(found, self._rule, ranks)
        else:
            self._take_decided(found, ranks, combinations, deadline)
        found.rows = [row for row in dict.fromkeys(found.rows) if self._is_usable(row)]
        return found

    def composed(self, sizes: tuple[int, ...], rows: Sequence[Row]) -> list[Row] | None:
        """What the rule claims of the operands of these rows, one for each mesh dim; None where it
        claims nothing of them."""
        layouts = tuple(zip(*(row.inputs for row in rows), strict=True))
        if self._rule is None:
            decided = self._decided(sizes, layouts)
            return None if isinstance(decided, str) else decided
        fits = all(
            _is_shardable(operand.shape, layout, sizes)
            for operand, layout in zip(self._executable.operands, layouts, strict=True)
        )
        is_claimed = fits and self._fulfils(sizes, rows) and not self._is_corrected(sizes, rows)
        return list(rows) if is_claimed else None

    def origin_of(self, row: Row) -> str:
        """The part of a rule in the notation that a claimed row follows from; else nothing."""
        return self._origins.get(row, "")

    def _is_usable(self, row: Row) -> bool:
        """May torch use the row: has an output that is an operand that operand's placement?"""
        if len(row.outputs) != self._outputs:
            return True  # a fault of the row, found when it is run
        return all(
            alias is None or placement == row.inputs[alias]
            for alias, placement in zip(self._aliases, row.outputs, strict=True)
        )

    # --- rules that list their rows

    def _take_listed(self, found: Claims, rule: Any, ranks: int) -> None:
        for row, origin in self._listed(rule):
            outputs = len(row) - len(self._executable.operands)
            asked = row[outputs:]
            if outputs < 0 or any(placement is None for placement in asked):
                found.skipped["row with another number of operands than the call"] += 1
                continue
            if rule.origin is Origin.TORCH and outputs not in (1, self._outputs):
                found.skipped[_MALFORMED] += 1
                continue
            for filled in _filled(row, self._factors):
                claimed = Row(self._per_tensor(filled[:outputs]), tuple(filled[outputs:]))
                if is_replicated(claimed.inputs) or not self._is_usable(claimed):
                    continue
                found.listed += 1
                self._origins.setdefault(claimed, origin)
                if not _applies(claimed.inputs, self._executable.operands, rule, ranks):
                    found.skipped[_TOO_SMALL] += 1
                    continue
                asks = self._asks_of(row[:outputs], asked)
                if self._asks.setdefault(claimed, asks) and not asks:
                    self._asks[claimed] = []  # the same row, listed without asking anything
                if not self._fulfils((ranks,), [claimed]):
                    found.skipped[_UNFULFILLED] += 1
                elif self._is_corrected((ranks,), [claimed]):
                    found.skipped[_CORRECTED] += 1
                else:
                    found.rows.append(claimed)

    def _listed(self, rule: RowsRule) -> Iterator[tuple[Sequence[Any], str]]:
        """The rows of a call, each with its origin: all that the core would have, where a rule
        shows torch but some."""
        call = self._executable.call.with_arguments(as_meta)
        metas = [*map(meta_of, self._expected)] or None
        rows = rule.rows_of(call.op, call.args, call.kwargs, metas)
        origins = rule.origins(call.op, call.args, call.kwargs, metas)
        return zip(rows, origins or [""] * len(rows), strict=True)

    def _asks_of(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> list[_Ask]:
        """What the placeholders of a row ask for."""
        made = zip(self._per_tensor(outputs), self._expected, strict=False)
        given = zip(inputs, self._executable.operands, strict=True)
        return [
            _Ask(cell, whole.shape, place, is_output)
            for pairs, is_output in ((made, True), (given, False))
            for place, (cell, whole) in enumerate(pairs)
            if whole is not None and getattr(cell, "is_constrained", False)
        ]

    def _fulfils(self, sizes: tuple[int, ...], rows: Sequence[Row]) -> bool:
        """Does every rank hold what the rows ask for? Several mesh dims may cut one tensor dim, so
        it is a question to all of them at once."""
        for ask in itertools.chain.from_iterable(self._asks.get(row, ()) for row in rows):
            layout = [(row.outputs if ask.is_output else row.inputs)[ask.place] for row in rows]
            held = local_shapes(ask.shape, layout, sizes)  # type: ignore[arg-type]
            if not is_enough([shape[ask.cell.dim] for shape in held], ask.cell):
                return False
        return True

    def _is_corrected(self, sizes: tuple[int, ...], rows: Sequence[Row]) -> bool:
        """Is another decision in force than these rows, since a filter of torch's refuses them, or
        since torch's would be wrong? Whoever registered a rule is told nevertheless."""
        found = route_of(self._executable.call.op)
        rule = None if found.rule is None else found.rule.as_rows
        layouts = tuple(zip(*(row.inputs for row in rows), strict=True))
        if rule is not None and rule.accepts is not None:
            return self._decided(sizes, layouts) != list(rows)
        is_registered = rule is not None and rule.origin is Origin.REGISTERED
        if not self._active or is_registered or not (found.corrections or found.minds_empty):
            return False
        policy = current_policy()
        if route(_schema(self._executable, sizes, layouts), policy).correction is None:
            return False
        return self._decided(sizes, layouts) != list(rows)

    def _per_tensor(self, outputs: Sequence[Placement | None]) -> tuple[Placement | None, ...]:
        """One for each output: a row may have one for all of a list."""
        return tuple(outputs) * (self._outputs if len(outputs) == 1 else 1)

    # --- rules that decide

    def _take_decided(
        self,
        found: Claims,
        ranks: int,
        combinations: Iterable[tuple[Placement, ...]],
        deadline: float,
    ) -> None:
        for asked, inputs in enumerate(combinations):
            if is_replicated(inputs):
                continue
            refuses_all = asked > _REFUSALS and found.skipped.total() >= asked - 1
            if refuses_all or time.monotonic() > deadline:
                found.skipped["placements that the rule was not asked about"] += 1
                return
            rows = self._decided((ranks,), tuple((placement,) for placement in inputs))
            if isinstance(rows, str):
                found.skipped[f"placements that the rule refuses ({rows})"] += 1
            elif rows is not None:
                found.rows += rows

    def _decided(
        self, sizes: tuple[int, ...], layouts: tuple[Placements, ...]
    ) -> list[Row] | str | None:
        """The rows of a decision that redistributes nothing; None if it redistributes something;
        the name of the error if there is no decision."""
        schema = _schema(self._executable, sizes, layouts)
        decide = propagate_sharding if self._active else _torch.torch_propagate
        try:
            sharding = decide(schema)
        except Exception as error:  # torch refuses with whatever its code runs into
            return type(error).__name__
        if not _leaves_operands(schema, sharding):
            return None
        specs = _output_specs(sharding)
        columns = [None if spec is None else spec.placements for spec in specs]
        if len(columns) == 1:
            columns *= self._outputs
        return [
            Row(
                tuple(None if column is None else column[m] for column in columns),
                tuple(layout[m] for layout in layouts),
            )
            for m in range(len(sizes))
        ]


def _is_shardable(shape: Sequence[int], layout: Placements, sizes: Sequence[int]) -> bool:
    """Does a shard leave something on every rank, by torch's count?"""
    pieces: Counter[int] = Counter()
    for placement, ranks in zip(layout, sizes, strict=True):
        if is_shard(placement):
            dim: int = placement.dim  # type: ignore[attr-defined]
            factor = int(getattr(placement, "split_factor", 1))
            pieces[dim] = max(pieces[dim], 1) * ranks * factor
    return all(shape[dim] >= count for dim, count in pieces.items())


def as_meta(value: Any) -> Any:
    """An argument as a rule sees it: metadata for tensors."""
    if isinstance(value, torch.Tensor):
        return meta_of(value)
    if isinstance(value, (list, tuple)):
        made = [as_meta(item) for item in value]
        if value and all(isinstance(item, torch.Tensor) for item in value):
            return tuple(made)
        return made if any(isinstance(x, torch.Tensor) for x in value) else type(value)(made)
    return value


def _filled(row: Sequence[Any], factors: Sequence[int]) -> Iterator[list[Any]]:
    """The row with its placeholders filled, all of them with one kind of shard."""
    if not any(isinstance(item, ShardingPlaceholder) for item in row):
        yield list(row)
        return
    for factor in (0, *factors):
        yield [shard(x.dim, factor) if isinstance(x, ShardingPlaceholder) else x for x in row]


def _applies(
    inputs: Sequence[Placement], operands: Sequence[torch.Tensor], rule: Any, ranks: int
) -> bool:
    """Would torch take these placements where the operands have them already?"""
    for placement, operand in zip(inputs, operands, strict=True):
        if not is_shard(placement):
            continue
        if not 0 <= placement.dim < operand.ndim:  # type: ignore[attr-defined]
            return False
        if not rule.allow_uneven_sharding and not _is_shardable(
            operand.shape, (placement,), (ranks,)
        ):
            return False
    return True


def is_enough(local: Sequence[int], placeholder: Any) -> bool:
    """Do these sizes on the ranks fulfil what a constrained placeholder asks for?"""
    return (
        (not placeholder.even or len(set(local)) == 1)
        and min(local) >= placeholder.min_local
        and all(length % placeholder.multiple_of == 0 for length in local)
    )


def _schema(
    executable: Executable, sizes: tuple[int, ...], layouts: Sequence[Placements]
) -> OpSchema:
    mesh = mesh_of(sizes)
    placed = zip(executable.operands, layouts, strict=True)
    call = executable.call.on(
        make_spec(mesh, layout, meta_of(x), strided_is_order=False) for x, layout in placed
    )
    return torch_registry.op_schema(call.op, call.args, call.kwargs)


def _leaves_operands(schema: OpSchema, sharding: OutputSharding) -> bool:
    """Are all operands to stay as they are?"""
    now = [x for x in _torch.tree_leaves(schema.args_schema) if isinstance(x, DTensorSpec)]
    wanted = wanted_specs(schema, sharding)
    return [spec.placements for spec in now] == [spec.placements for spec in wanted]


def _output_specs(sharding: OutputSharding) -> list[DTensorSpec | None]:
    output = sharding.output_spec
    if isinstance(output, DTensorSpec):
        return [output]
    found: list[DTensorSpec | None] = []
    for item in output or ():
        found += item if isinstance(item, (list, tuple)) else [item]
    return found
