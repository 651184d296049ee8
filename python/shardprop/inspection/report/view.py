"""A layout as what can be drawn on paper: blocks in two tensor dims, and who holds each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import ShardpropError
from .colours import rank_colour
from .geometry import Block, Interval
from .subject import Subject
from .words import ranks_text

__all__ = ["Cell", "View", "cut_mesh_dims", "drawn_dims", "view_of"]


@dataclass(frozen=True)
class Cell:
    """A part of the drawn tensor that the same ranks hold.

    Attributes:
        boxes: Per piece its rows and its columns, as index ranges of the drawn tensor dims.
        ranks: Who holds it, ascending.
        who: Their common coordinates by mesh dim, ``*`` where they differ: ``dp 0, tp *``.
        colour: As ``#rrggbb``.
    """

    boxes: tuple[tuple[Interval, Interval], ...]
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
        hidden: Sizes of the tensor dims that are not drawn, by dim, and whether they are cut.
        idle: Ranks that hold nothing.
    """

    dims: tuple[int | None, int | None]
    sizes: tuple[int, int]
    cells: tuple[Cell, ...]
    copied_over: tuple[str, ...]
    pending_over: tuple[str, ...]
    hidden: tuple[tuple[int, int, bool], ...]
    idle: tuple[int, ...]

    @property
    def notes(self) -> list[str]:
        """What the blocks alone do not say, one line each."""
        notes = []
        if self.copied_over:
            notes.append(f"dotted: the same on all ranks along {', '.join(self.copied_over)}")
        if self.pending_over:
            notes.append(f"striped: {', '.join(self.pending_over)} still to be reduced")
        for dim, size, cut in self.hidden:
            notes.append(
                f"tensor dim {dim} (size {size}) is not drawn"
                + (", and is cut: the ranks of a block hold parts of it" if cut else "")
            )
        if self.idle:
            notes.append(f"nothing is left for rank {ranks_text(self.idle)}")
        return notes


def cut_mesh_dims(subject: Subject) -> tuple[int, ...]:
    """The mesh dims of size over 1 that cut the tensor."""
    first = subject.blocks[0]
    apart = {*first.copied_over, *first.pending_over}
    return tuple(m for m, ranks in enumerate(subject.mesh_shape) if ranks > 1 and m not in apart)


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

    cut = [
        {c.tensor_dim for c in s.cuts if s.mesh_shape[c.mesh_dim] > 1 and shape[c.tensor_dim] > 1}
        for s in subjects
    ]

    def weight(dim: int) -> tuple[int, int, int]:
        return -sum(dim in each for each in cut), -shape[dim], dim

    return tuple(sorted(sorted(range(len(shape)), key=weight)[:2]))


def view_of(
    subject: Subject, dims: tuple[int, ...], colour_by: Sequence[int] | None = None
) -> View:
    """`subject` as it is drawn in the tensor dims `dims`, coloured by mesh dims.

    Args:
        subject: What is drawn.
        dims: As `drawn_dims` gives them.
        colour_by: Mesh dims; None: those that cut what is drawn.
    """
    blocks = subject.blocks
    cutting = _cutting(subject, dims)
    by = cutting if colour_by is None else (colour_by if cutting else ())
    # A tensor of one dim is a strip along the page.
    rows, columns = (None, *dims) if len(dims) == 1 else dims if dims else (None, None)
    held: dict[tuple[tuple[Interval, Interval], ...], list[Block]] = {}
    for block in blocks:
        boxes = tuple((r, c) for r in _ranges(block, rows) for c in _ranges(block, columns))
        if not block.empty:
            held.setdefault(boxes, []).append(block)
    cells = tuple(
        Cell(boxes, tuple(b.rank for b in who), _who(subject, who), _colour(subject, who[0], by))
        for boxes, who in held.items()
    )
    first, names = blocks[0], subject.names
    return View(
        (rows, columns),
        (_size(subject, rows), _size(subject, columns)),
        cells,
        tuple(names[dim] for dim in first.copied_over),
        tuple(f"{subject.layout.placements[m]} over {names[m]}" for m in first.pending_over),
        tuple(
            (dim, size, any(b.intervals[dim] != ((0, size),) for b in blocks if not b.empty))
            for dim, size in enumerate(subject.shape)
            if dim not in dims
        ),
        tuple(block.rank for block in blocks if block.empty) if held else (),
    )


def _cutting(subject: Subject, dims: Sequence[int]) -> tuple[int, ...]:
    """The mesh dims that cut one of the tensor dims."""
    placements = subject.layout.placements
    found = cut_mesh_dims(subject)
    return tuple(m for m in found if placements[m].dim in dims)  # type: ignore[attr-defined]


def _ranges(block: Block, dim: int | None) -> tuple[Interval, ...]:
    return ((0, 1),) if dim is None else block.intervals[dim]


def _size(subject: Subject, dim: int | None) -> int:
    return 1 if dim is None else subject.shape[dim]


def _colour(subject: Subject, block: Block, by: Sequence[int]) -> str:
    return rank_colour(block.coordinate, subject.mesh_shape, by)


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
