"""A layout as what can be drawn on paper: blocks in two tensor dims, and who holds each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import ShardpropError
from .colours import rank_colour
from .geometry import Block, Interval, joined
from .subject import Subject

_Ranges = tuple[Interval, ...]
_Boxes = tuple[tuple[Interval, Interval], ...]

__all__ = ["Cell", "View", "drawn_dims", "ranks_text", "view_of"]


@dataclass(frozen=True)
class Cell:
    """A part of the drawn tensor that the same ranks hold.

    Attributes:
        boxes: Per piece its rows and its columns, as index ranges of the drawn tensor dims.
        ranks: Who holds it, ascending.
        who: Their common coordinates by mesh dim, ``*`` where they differ: ``dp 0, tp *``.
        colour: As ``#rrggbb``.
    """

    boxes: _Boxes
    ranks: tuple[int, ...]
    who: str
    colour: str

    @property
    def label(self) -> str:
        """The ranks, in short."""
        return ranks_text(self.ranks)


@dataclass(frozen=True)
class View:
    """A layout in two tensor dims (in one, or none, where the tensor has no more).

    Attributes:
        dims: The tensor dims that are drawn as rows and columns; None stands for a missing one.
        sizes: Of these; 1 for a missing one.
        cells: In the order of their first rank; together they cover the tensor.
        copied_over: Names of the mesh dims over which every block is copied.
        pending_over: Names of the mesh dims over which a Partial is pending, with the placement.
        remarks: What else the blocks alone do not say, one line each: dims that are not drawn, and
            ranks that hold nothing.
    """

    dims: tuple[int | None, int | None]
    sizes: tuple[int, int]
    cells: tuple[Cell, ...]
    copied_over: tuple[str, ...]
    pending_over: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def notes(self) -> list[str]:
        """What the blocks alone do not say, one line each."""
        notes = []
        if self.copied_over:
            notes.append(f"dotted: the same on all ranks along {', '.join(self.copied_over)}")
        if self.pending_over:
            notes.append(f"striped: {', '.join(self.pending_over)} still to be reduced")
        return [*notes, *self.remarks]


def drawn_dims(subjects: Sequence[Subject], dims: Sequence[int] | None) -> tuple[int, ...]:
    """The tensor dims to draw, ascending: `dims`, or those that are cut most often, then the
    largest. At most two.

    Args:
        subjects: Layouts of one tensor that are to be drawn alike.
        dims: Up to two tensor dims, or None.

    Raises:
        ShardpropError: `dims` are not up to two dims of the tensor.
    """
    shape = subjects[0].shape
    if dims is not None:
        if len(set(dims)) != len(dims) or len(dims) > 2 or not set(dims) <= {*range(len(shape))}:
            raise ShardpropError(
                f"dims: Expected one or two of the tensor dims 0 to {len(shape) - 1}, got "
                f"{tuple(dims)}."
            )
        return tuple(dims)

    def weight(dim: int) -> tuple[int, int, int]:
        return -sum(subject.is_cut(dim) for subject in subjects), -shape[dim], dim

    return tuple(sorted(sorted(range(len(shape)), key=weight)[:2]))


def view_of(
    subject: Subject,
    dims: tuple[int, ...],
    colour_by: Sequence[int] | None = None,
    most: int | None = None,
) -> View:
    """`subject` as it is drawn in the tensor dims `dims`, coloured by mesh dims.

    Args:
        subject: What is drawn.
        dims: As `drawn_dims` gives them.
        colour_by: Mesh dims; None: those that cut what is drawn.
        most: The most cells to draw; where there are more, neighbours are merged.
    """
    placements, names = subject.layout.placements, subject.names
    cutting = [m for m in subject.cutting if placements[m].dim in dims]  # type: ignore[attr-defined]
    by = cutting if colour_by is None else (colour_by if cutting else ())
    # A tensor of one dim is a strip along the page.
    rows, columns = (None, *dims) if len(dims) == 1 else dims if dims else (None, None)
    holders_of: dict[tuple[_Ranges, _Ranges], list[Block]] = {}
    for block in subject.blocks:
        if not block.empty:
            holders_of.setdefault((_ranges(block, rows), _ranges(block, columns)), []).append(block)
    held: dict[_Boxes, list[Block]] = {
        tuple(itertools.product(row_ranges, column_ranges)): holders
        for (row_ranges, column_ranges), holders in holders_of.items()
    }
    remarks = _remarks(subject, dims)
    if most is not None and len(held) > most:
        remarks.append(f"{len(held)} blocks are drawn as {most}: the ranks of one hold parts of it")
        held = _neighbours_as_one(held, most)
    first = subject.blocks[0]
    return View(
        (rows, columns),
        (_size(subject, rows), _size(subject, columns)),
        tuple(
            Cell(
                boxes,
                tuple(block.rank for block in holders),
                _who(subject, holders),
                rank_colour(holders[0].coordinate, subject.mesh_shape, by),
            )
            for boxes, holders in held.items()
        ),
        tuple(names[dim] for dim in first.copied_over),
        tuple(f"{placements[m]} over {names[m]}" for m in first.pending_over),
        tuple(remarks),
    )


def _neighbours_as_one(held: dict[_Boxes, list[Block]], most: int) -> dict[_Boxes, list[Block]]:
    """`held` merged into `most` groups, each of blocks that follow each other in rank order."""
    groups: list[tuple[list[tuple[Interval, Interval]], list[Block]]] = [
        ([], []) for _ in range(most)
    ]
    for place, (boxes, holders) in enumerate(held.items()):
        of_boxes, of_blocks = groups[place * most // len(held)]
        of_boxes += boxes
        of_blocks += holders
    return {_joined(boxes): sorted(holders, key=lambda b: b.rank) for boxes, holders in groups}


def _joined(boxes: Sequence[tuple[Interval, Interval]]) -> _Boxes:
    """The boxes, those that share a whole side merged."""
    columns_of: dict[Interval, list[Interval]] = {}
    for row, column in sorted(boxes):
        columns_of.setdefault(row, []).append(column)
    rows_of: dict[tuple[Interval, ...], list[Interval]] = {}
    for row, columns in columns_of.items():
        rows_of.setdefault(joined(columns), []).append(row)
    return tuple(
        (row, column)
        for columns, rows in rows_of.items()
        for row in joined(rows)
        for column in columns
    )


def ranks_text(ranks: Sequence[int]) -> str:
    """``0-3, 8``: ascending ranks with those in a row as one range; a few of them, then a count."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    parts = [f"{a}" if a == b else f"{a}, {b}" if b == a + 1 else f"{a}-{b}" for a, b in runs]
    if len(parts) > 4:
        return f"{parts[0]}, {parts[1]}, … {parts[-1]} ({len(ranks)})"
    return ", ".join(parts)


def _ranges(block: Block, dim: int | None) -> tuple[Interval, ...]:
    return ((0, 1),) if dim is None else block.intervals[dim]


def _size(subject: Subject, dim: int | None) -> int:
    return 1 if dim is None else subject.shape[dim]


def _remarks(subject: Subject, dims: Sequence[int]) -> list[str]:
    found = [
        f"tensor dim {dim} (size {size}) is not drawn"
        + (", and is cut: the ranks of a block hold parts of it" if subject.is_cut(dim) else "")
        for dim, size in enumerate(subject.shape)
        if dim not in dims
    ]
    idle = [block.rank for block in subject.blocks if block.empty]
    if 0 < len(idle) < len(subject.blocks):
        found.append(f"nothing is left for rank {ranks_text(idle)}")
    return found


def _who(subject: Subject, holders: Sequence[Block]) -> str:
    parts = []
    for mesh_dim, name in enumerate(subject.names):
        if subject.mesh_shape[mesh_dim] == 1:
            continue
        found = {block.coordinate[mesh_dim] for block in holders}
        at = "*" if len(found) > 1 else str(found.pop())
        # A number for a name would read as a coordinate.
        parts.append(at if name.isdigit() else f"{name} {at}")
    text = ", ".join(parts)
    return f"({text})" if all(name.isdigit() for name in subject.names) else text
