"""Rows that torch's filters dropped, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..._torch import DTensorSpec, Partial, Placement, Shard, StridedShard
from ...model.question import Question
from ...support.console import counted
from ..words import named_dim, placement_text
from .model import Rejection, Row
from .words import listed

__all__ = ["DroppedRow", "NamedRows", "rejections_of"]


class DroppedRow(NamedTuple):
    """What the core says of a row that a filter dropped.

    Attributes:
        mesh_dim: Where.
        row: Its number.
        filter: Which filter.
        position: The cell that it failed at: outputs, then operands; -1 for none in particular.
        dropped: Combinations of rows that fell by it.
        rows_before: Rows on the mesh dims before that led to it; empty if it falls whatever they
            are.
    """

    mesh_dim: int
    row: int
    filter: str
    position: int
    dropped: int
    rows_before: tuple[int, ...]


class NamedRows(NamedTuple):
    """Rows, and what they are rows of."""

    question: Question
    rows: Sequence[Row]
    output_names: Sequence[str]
    operand_names: Sequence[str]
    dim_names: Sequence[str]
    mesh_shape: Sequence[int]

    def name(self, position: int) -> str:
        """What an output or operand is called."""
        return (*self.output_names, *self.operand_names)[position]

    def cell(self, row: int, position: int) -> Placement | None:
        """A placement of a row."""
        return (*self.rows[row].outputs, *self.rows[row].operands)[position]

    def text(self, row: int, position: int) -> str:
        """The same in torch's short form."""
        return placement_text(self.cell(row, position))

    def spec(self, position: int) -> DTensorSpec | None:
        """Where an operand is; None for an output."""
        index = position - len(self.output_names)
        return self.question.operands[index] if index >= 0 else None


def rejections_of(table: NamedRows, refusals: Sequence[DroppedRow]) -> tuple[Rejection, ...]:
    """Those that were dropped, in the order of the core."""
    return tuple(_rejection(table, refusal) for refusal in refusals)


def _rejection(table: NamedRows, refusal: DroppedRow) -> Rejection:
    name = None if refusal.position < 0 else table.name(refusal.position)
    why = _WORDS.get(refusal.filter, _by_filter)(table, refusal)
    text = f"row {refusal.row} on mesh dim {table.dim_names[refusal.mesh_dim]}: {why}"
    return Rejection(refusal.row, refusal.mesh_dim, refusal.filter, name, refusal.dropped, text)


def _in_place(table: NamedRows, refusal: DroppedRow) -> str:
    """The operand keeps its placement, and the output is where that is."""
    first = len(table.output_names)
    spec = table.spec(first)
    assert spec is not None
    name, now = table.name(first), spec.placements[refusal.mesh_dim]
    if table.cell(refusal.row, first) != now:
        wanted = table.text(refusal.row, first)
        return (
            f"`{name}` would go from {placement_text(now)} to {wanted}, but an in-place op keeps "
            "its placement"
        )
    return (
        f"the result would be {table.text(refusal.row, 0)}, but an in-place op writes it into "
        f"`{name}`, which is {placement_text(now)}"
    )


def _fixed(table: NamedRows, refusal: DroppedRow) -> str:
    name, wanted = table.name(refusal.position), table.text(refusal.row, refusal.position)
    spec = table.spec(refusal.position)
    if spec is not None:
        now = placement_text(spec.placements[refusal.mesh_dim])
        return f"`{name}` would go from {now} to {wanted}, but torch cannot move it"
    return f"`{name}` would be {wanted}, but it is written into a tensor that is placed otherwise"


def _mixed_partial(table: NamedRows, refusal: DroppedRow) -> str:
    here = table.text(refusal.row, refusal.position)
    before = [table.cell(row, refusal.position) for row in refusal.rows_before]
    pending = [placement_text(p) for p in before if isinstance(p, Partial)]
    others = listed([*dict.fromkeys(p for p in pending if p != here)]) or "another partial"
    return (
        f"`{table.name(refusal.position)}` would be {here} beside {others}, and partials of two "
        f"kinds cannot pend at once{_after(table, refusal)}"
    )


def _too_small(table: NamedRows, refusal: DroppedRow) -> str:
    name = table.name(refusal.position)
    spec = table.spec(refusal.position)
    assert spec is not None
    cut = _unshardable(table, refusal, spec.shape)
    if cut is None:
        cell = table.text(refusal.row, refusal.position)
        return f"`{name}` cannot be cut as {cell}{_after(table, refusal)}"
    dim, pieces = cut
    if dim >= len(spec.shape):
        return f"`{name}` has no dim {dim} to shard"
    elements = int(spec.shape[dim])
    text = f"dim {dim} of `{name}` has {counted(elements, 'element')}, {pieces} ranks cut it"
    return text + (_after(table, refusal) if pieces != table.mesh_shape[refusal.mesh_dim] else "")


def _unshardable(
    table: NamedRows, refusal: DroppedRow, shape: Sequence[int]
) -> tuple[int, int] | None:
    """The first tensor dim that is cut into more pieces than it has elements, and how many."""
    ranks: dict[int, int] = {}
    for mesh_dim, row in enumerate((*refusal.rows_before, refusal.row)):
        at = refusal.mesh_dim if not refusal.rows_before else mesh_dim
        cell = table.cell(row, refusal.position)
        if not isinstance(cell, (Shard, StridedShard)):
            continue
        dim = cell.dim
        ranks[dim] = ranks.get(dim, 1) * table.mesh_shape[at]
        factor = cell.split_factor if isinstance(cell, StridedShard) else 1
        if dim >= len(shape) or ranks[dim] * factor > shape[dim]:
            return dim, ranks[dim] * int(factor)
    return None


def _constraint(table: NamedRows, refusal: DroppedRow) -> str:
    name, cell = table.name(refusal.position), table.text(refusal.row, refusal.position)
    return f"the rule asks more of {cell} of `{name}` than its size gives" + _after(table, refusal)


def _by_filter(table: NamedRows, refusal: DroppedRow) -> str:
    return f"dropped by {refusal.filter}"


_WORDS = {
    "in_place": _in_place,
    "fixed": _fixed,
    "mixed_partial": _mixed_partial,
    "too_small": _too_small,
    "constraint": _constraint,
}


def _after(table: NamedRows, refusal: DroppedRow) -> str:
    """After which rows on the mesh dims before, if they matter."""
    names = table.dim_names
    rows = [
        f"row {row} on {named_dim(names[mesh_dim])}"
        for mesh_dim, row in enumerate(refusal.rows_before)
    ]
    return f" (after {listed(rows)})" if rows else ""
