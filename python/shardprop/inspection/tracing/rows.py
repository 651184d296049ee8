"""Events alike, counted together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from ..._torch import DTensorSpec
from ...model.operands import operands_of
from .model import Place, TracedDecision, TracedRedistribution, planner_of
from .plans import spec_identity

__all__ = [
    "EXPLICIT",
    "CorrectionRow",
    "ModuleRow",
    "MoveRow",
    "Totals",
    "across_modules",
    "by_module",
    "corrected",
    "moves_alike",
    "totals",
]

EXPLICIT = "redistribute"


@dataclass(frozen=True)
class MoveRow(TracedRedistribution):
    """Redistributions that are alike: the same operand from and to the same layouts, at one place.

    It is the first of them, with what is counted; `us`, `wire_bytes` and `collectives` are of one.

    Attributes:
        count: How many.
        seconds: What the host took for all.
        first: The index of the first in `Trace.redistributions`.
        modules: The modules of which it was part; in rows by place one, that of the place.
    """

    count: int
    first: int
    modules: tuple[str, ...]

    @property
    def unpriced(self) -> bool:
        """It may send something, and has no price."""
        return self.plan is None and self.planned.sends

    @property
    def total_us(self) -> float:
        """Microseconds of all under the cost model."""
        return self.us * self.count

    @property
    def total_wire_bytes(self) -> int:
        """Bytes that a rank sends for all."""
        return self.wire_bytes * self.count


@dataclass(frozen=True)
class CorrectionRow:
    """Decisions, or redistributions, that put the same fault of torch's right at the same place.

    Attributes:
        correction: The name of the fault (docs/corrections.md).
        op: The overload; ``"redistribute"`` for a redistribution that the program asked for.
        place: The line and the module.
        count: How many redistributions that ran, or decisions. A call that torch's cache answers is
            no decision: of two calls with the same layouts there is that of the first.
        first: The first of them.
    """

    correction: str
    op: str
    place: Place
    count: int
    first: TracedDecision | TracedRedistribution

    @property
    def operands(self) -> dict[str, DTensorSpec]:
        """The specs of the first's operands, by name; what is moved by the program has none."""
        if isinstance(self.first, TracedRedistribution):
            return {self.first.operand or "": self.first.src}
        schema = self.first.schema
        operands = operands_of(schema.op, schema.args_schema, schema.kwargs_schema)
        return {x.name: x.meta for x in operands if isinstance(x.meta, DTensorSpec)}


@dataclass(frozen=True)
class ModuleRow:
    """What one op did in one module, forward or backward.

    Attributes:
        module: The path of the module; empty outside any.
        op: The overload; ``"redistribute"`` for redistributions that the program asked for.
        backward: In the backward pass of the module.
        decisions: How many, of those that no cache answered.
        decision_seconds: What they took.
        redistributions: How many.
        collectives: How many of their steps communicate.
        wire_bytes: Bytes that a rank sends for them.
        us: Microseconds under the cost model.
    """

    module: str
    op: str
    backward: bool
    decisions: int = 0
    decision_seconds: float = 0.0
    redistributions: int = 0
    collectives: int = 0
    wire_bytes: int = 0
    us: float = 0.0

    def __add__(self, other: ModuleRow) -> ModuleRow:
        """Both counted together, under the name of this one."""
        return replace(
            self,
            decisions=self.decisions + other.decisions,
            decision_seconds=self.decision_seconds + other.decision_seconds,
            redistributions=self.redistributions + other.redistributions,
            collectives=self.collectives + other.collectives,
            wire_bytes=self.wire_bytes + other.wire_bytes,
            us=self.us + other.us,
        )


@dataclass(frozen=True)
class Totals:
    """What was redistributed in all.

    Attributes:
        implicit: How many redistributions no line of the program asked for.
        explicit: How many the program asked for.
        unpriced: How many of both may send something, and have no price.
        collectives: How many of their steps communicate.
        wire_bytes: Bytes that a rank sends.
        us: Microseconds under the cost model.
    """

    implicit: int
    explicit: int
    unpriced: int
    collectives: int
    wire_bytes: int
    us: float


def totals(moves: Sequence[MoveRow]) -> Totals:
    """All rows as one."""
    return Totals(
        implicit=sum(row.count for row in moves if not row.explicit),
        explicit=sum(row.count for row in moves if row.explicit),
        unpriced=sum(row.count for row in moves if row.unpriced),
        collectives=sum(row.collectives * row.count for row in moves),
        wire_bytes=sum(row.total_wire_bytes for row in moves),
        us=sum(row.total_us for row in moves),
    )


def moves_alike(
    redistributions: Sequence[TracedRedistribution],
) -> tuple[list[MoveRow], list[int]]:
    """The rows in the order of their first, and for each redistribution the index of its row."""
    rows: list[MoveRow] = []
    index: dict[object, int] = {}
    row_of: list[int] = []
    for number, each in enumerate(redistributions):
        kind = (each.op, each.operand, each.explicit, each.place, id(planner_of(each)))
        ends = (spec_identity(each.src), spec_identity(each.dst))
        key = (kind, ends, each.correction)
        found = index.setdefault(key, len(rows))
        row_of.append(found)
        if found == len(rows):
            rows.append(_first(each, number))
        else:
            row = rows[found]
            rows[found] = replace(row, count=row.count + 1, seconds=row.seconds + each.seconds)
    return rows, row_of


def _first(each: TracedRedistribution, number: int) -> MoveRow:
    known = {field.name: getattr(each, field.name) for field in fields(each)}
    return MoveRow(**known, count=1, first=number, modules=(each.place.module,))


def across_modules(rows: Sequence[MoveRow]) -> list[MoveRow]:
    """Rows that differ in nothing but the module as one: layers of a model run the same lines."""
    merged: dict[object, MoveRow] = {}
    for row in rows:
        place = replace(row.place, module="")
        kind = (row.op, row.operand, row.explicit, place, row.policy, id(row.planned))
        key = (kind, spec_identity(row.src), spec_identity(row.dst))
        known = merged.get(key)
        if known is None:
            merged[key] = row
            continue
        merged[key] = replace(
            known,
            count=known.count + row.count,
            seconds=known.seconds + row.seconds,
            modules=(*known.modules, *row.modules),
        )
    return [*merged.values()]


def by_module(decisions: Sequence[TracedDecision], moves: Sequence[MoveRow]) -> list[ModuleRow]:
    """A row for each module and op, in the order in which they were first met."""
    rows: dict[tuple[str, bool, str], ModuleRow] = {}

    def count(place: Place, op: str, **counts: Any) -> None:
        key = (place.module, place.backward, op)
        new = ModuleRow(place.module, op, place.backward, **counts)
        rows[key] = rows[key] + new if key in rows else new

    for decision in decisions:
        count(decision.place, decision.op, decisions=1, decision_seconds=decision.seconds)
    for move in moves:
        count(
            move.place,
            move.op or EXPLICIT,
            redistributions=move.count,
            collectives=move.collectives * move.count,
            wire_bytes=move.total_wire_bytes,
            us=move.total_us,
        )
    return [*rows.values()]


def corrected(
    decisions: Sequence[TracedDecision], redistributions: Sequence[TracedRedistribution]
) -> list[CorrectionRow]:
    """A row for each correction, op and place, in the order of their first, decisions before
    redistributions."""
    rows: dict[tuple[str, str, Place, bool], CorrectionRow] = {}
    events: list[TracedDecision | TracedRedistribution] = [*decisions, *redistributions]
    for event in events:
        if event.correction is None:
            continue
        op = event.op or EXPLICIT
        key = (event.correction, op, event.place, isinstance(event, TracedDecision))
        known = rows.get(key)
        rows[key] = (
            CorrectionRow(event.correction, op, event.place, 1, event)
            if known is None
            else replace(known, count=known.count + 1)
        )
    return [*rows.values()]
