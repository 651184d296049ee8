"""Rows without shards: which operands the op is additive or linear in, and what is left over."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from .observation import Observation
from .rows import ABSENT, Row, cuts, essential, implies, reduce_op

__all__ = [
    "Marks",
    "is_whole",
    "mark_rows",
    "marks_of",
    "project",
    "unexplained",
    "universal_rows",
]


@dataclass(frozen=True)
class Marks:
    """How `Partial` passes an op.

    Attributes:
        plus: The operands marked ``+``.
        star: The operands marked ``*``.
    """

    plus: frozenset[int] = frozenset()
    star: frozenset[int] = frozenset()

    def of(self, slot: int) -> str:
        """The mark of an operand."""
        return "+" * (slot in self.plus) + "*" * (slot in self.star)


def mark_rows(marks: Marks, operands: int, outputs: int) -> Iterator[Row]:
    """The rows that marks stand for, all slots being given."""
    together = [marks.plus | {slot} for slot in sorted(marks.star)] or [marks.plus]
    for op in ("P(sum)", "P(avg)"):
        for partial in together:
            if partial:
                left = tuple(op if slot in partial else "R" for slot in range(operands))
                yield left + (op,) * outputs


def project(row: Row, seen: Observation) -> Row:
    """A row as it stands for a call, which may lack optional tensors."""
    return tuple(cell if seen.shapes[slot] else ABSENT for slot, cell in enumerate(row))


def is_whole(row: Row, operands: int) -> bool:
    """Are all operands of the row whole?"""
    return all(cell in (ABSENT, "R") for cell in row[:operands])


def universal_rows(observations: Sequence[Observation]) -> frozenset[Row]:
    """The essential rows without shards that hold on every call that can tell."""
    found = {
        full
        for seen in observations
        for row in seen.rows
        if not cuts(row)
        for full in _filled(row, observations)
    }
    operands = observations[0].operands
    return essential((row for row in found if is_universal(row, observations)), operands)


def is_universal(row: Row, observations: Iterable[Observation]) -> bool:
    """Does a row without shards hold on every call that can tell, those included that lack the
    operands which it does not have whole?"""
    return all(seen.holds(project(row, seen)) is not False for seen in observations)


def _filled(row: Row, observations: Sequence[Observation]) -> set[Row]:
    """A row with a cell for the slots that the call does not have, as other calls fill them."""
    if ABSENT not in row:
        return {row}
    fuller = {
        other
        for seen in observations
        for other in seen.rows
        if all(mine in (ABSENT, theirs) for mine, theirs in zip(row, other, strict=True))
        and other.count(ABSENT) < row.count(ABSENT)
    }
    return fuller | {tuple(cell or "R" for cell in row)}


def marks_of(
    rows: frozenset[Row], observations: Sequence[Observation], lists: Collection[int]
) -> list[Marks]:
    """The marks that stand only for rows that hold, the best first; the last has none.

    All tensors of a list (`lists`: the slots of lists) are Partial together, which is ``+``.
    """
    operands = observations[0].operands
    linear = [
        frozenset(slot for slot in range(operands) if row[slot] != "R")
        for row in rows
        if {reduce_op(cell) for cell in row if cell != "R"} == {"sum"} and "R" not in row[operands:]
    ]
    shapes = (marks for marks in _shapes_of(linear) if marks.star.isdisjoint(lists))
    found = [marks for marks in shapes if _hold(marks, observations)]
    return [*sorted(found, key=lambda marks: -len(marks.plus)), Marks()]


def _shapes_of(linear: Sequence[frozenset[int]]) -> Iterator[Marks]:
    if not linear:
        return
    shared = frozenset.intersection(*linear)
    others = [slots - shared for slots in linear]
    if len(linear) == 1:
        yield Marks(plus=shared)
        if len(shared) == 1:
            yield Marks(star=shared)
    elif all(len(slots) == 1 for slots in others):
        yield Marks(shared, frozenset.union(*others))


def _hold(marks: Marks, observations: Sequence[Observation]) -> bool:
    """Do the rows of the marks hold? Without the marked operands there is no such row."""
    first = observations[0]
    rows = list(mark_rows(marks, first.operands, len(first.shapes) - first.operands))
    cells = ((project(row, seen), seen) for row in rows for seen in observations)
    return all(is_whole(row, seen.operands) or seen.holds(row) is not False for row, seen in cells)


def unexplained(rows: Iterable[Row], marks: Marks, operands: int, outputs: int) -> list[Row]:
    """The rows that the marks do not stand for."""
    explained = list(mark_rows(marks, operands, outputs))
    return sorted(
        row for row in rows if not any(implies(held, row, operands) for held in explained)
    )
