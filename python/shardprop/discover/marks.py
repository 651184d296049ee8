"""Rows without shards: which operands the op is additive or linear in, and what is left over."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from .observation import Observation
from .rows import ABSENT, Row, essential, implies, reduce_op, shard_dim

__all__ = ["Marks", "mark_rows", "marks_of", "project", "universal_rows"]


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


def project(row: Row, seen: Observation) -> Row | None:
    """A row as it stands for a call; None if no operand of the call is anything but whole."""
    cells = tuple(cell if seen.shapes[slot] else ABSENT for slot, cell in enumerate(row))
    if all(cell in (ABSENT, "R") for cell in cells[: seen.operands]):
        return None
    return cells


def universal_rows(observations: Sequence[Observation]) -> frozenset[Row]:
    """The essential rows without shards that hold on every call that can tell."""
    found = {
        full
        for seen in observations
        for row in seen.rows
        if all(shard_dim(cell) is None for cell in row)
        for full in _filled(row, observations)
    }
    operands = observations[0].operands
    return essential((row for row in found if is_universal(row, observations)), operands)


def is_universal(row: Row, observations: Iterable[Observation]) -> bool:
    """Does a row without shards hold on every call that can tell?"""
    projected = ((project(row, seen), seen) for seen in observations)
    return all(cells is None or seen.holds(cells) is not False for cells, seen in projected)


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
    first = observations[0]
    rows = mark_rows(marks, first.operands, len(first.shapes) - first.operands)
    return all(is_universal(row, observations) for row in rows)


def unexplained(rows: Iterable[Row], marks: Marks, operands: int, outputs: int) -> list[Row]:
    """The rows that the marks do not stand for."""
    explained = list(mark_rows(marks, operands, outputs))
    return sorted(
        row for row in rows if not any(implies(held, row, operands) for held in explained)
    )
