"""Plans as the page draws them: per layout what each rank holds, as numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from ..._torch import Partial, Placement, Replicate, Shard, StridedShard
from ...model.plan_steps import Layout
from .colours import rank_colour
from .geometry import Interval, held_intervals
from .names import over_text, short
from .subject import Subject, subject_of_layout
from .view import drawn_dims

__all__ = ["movement"]

Coordinate = tuple[int, ...]
# Rows and columns: [top, bottom, left, right].
Box = list[int]

# With more ranks only some are drawn; with more parts, bands of the tensor are coloured instead.
_MOST_RANKS, _MOST_PARTS = 32, 64
_SPREAD, _BANDS, _ACROSS = 4, 8, 8


def movement(
    mesh: dict[str, Any], shape: object, steps: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """The layouts that a plan passes through, for the page to draw.

    Args:
        mesh: An entry of the trace's ``meshes``.
        shape: Of the whole tensor.
        steps: Of the plan, as the trace has them.

    Returns:
        ``frames`` (per layout its text, the distinct blocks, and which of them each rank holds),
        ``paint`` (parts of the tensor with their colours), ``grid`` (the ranks that are drawn),
        ``sizes``, ``ratio`` and ``notes``. Without frames where the layouts cannot be drawn: sizes
        that are expressions, placements of another kind.
    """
    subjects = _subjects(mesh, shape, steps)
    if subjects is None:
        return {"frames": [], "notes": ["its layouts cannot be drawn"]}
    dims = drawn_dims(subjects, None)
    ranks, left_out = _drawn_ranks(subjects[0].mesh_shape, mesh, steps)
    sizes = [subjects[0].shape[dim] for dim in dims]
    rows, columns = [1] * (2 - len(sizes)) + sizes
    hidden = [str(dim) for dim in range(len(subjects[0].shape)) if dim not in dims]
    notes = [f"tensor dim {', '.join(hidden)} not drawn"] if hidden else []
    return {
        "frames": [_frame(subject, dims, ranks) for subject in subjects],
        "paint": _paint(subjects, dims),
        "grid": _grid(ranks, mesh),
        "sizes": [max(rows, 1), max(columns, 1)],
        "ratio": 0.4 if len(dims) < 2 else round(min(max(rows / max(columns, 1), 0.5), 1.1), 3),
        "notes": notes + left_out,
    }


def _subjects(
    mesh: dict[str, Any], shape: object, steps: Sequence[dict[str, Any]]
) -> list[Subject] | None:
    layouts = [steps[0]["before"], *(step["after"] for step in steps)]
    read = [_layout(layout) for layout in layouts]
    if not isinstance(shape, list) or not all(isinstance(size, int) for size in shape):
        return None
    found = [
        subject_of_layout(each, shape, mesh["shape"], mesh["dim_names"]) for each in read if each
    ]
    return found if len(found) == len(layouts) else None


def _layout(layout: dict[str, Any]) -> Layout | None:
    placements = [_placement(each) for each in layout["placements"]]
    known = tuple(each for each in placements if each is not None)
    order = tuple((dim, tuple(mesh_dims)) for dim, mesh_dims in layout["shard_order"])
    return Layout(known, order) if len(known) == len(placements) else None


def _placement(given: dict[str, Any]) -> Placement | None:
    kind = given["kind"]
    if kind == "replicate":
        return Replicate()
    if kind == "partial":
        return Partial()
    if kind == "shard":
        return Shard(given["dim"])
    if kind == "strided_shard" and isinstance(given["split_factor"], int):
        return StridedShard(given["dim"], split_factor=given["split_factor"])
    return None


def _frame(subject: Subject, dims: Sequence[int], ranks: Sequence[Coordinate]) -> dict[str, Any]:
    cells: dict[str, int] = {}
    blocks: list[list[Box]] = []
    of: list[int | None] = []
    for at in ranks:
        held = _boxes(subject, dims, at)
        if not held:
            of.append(None)
            continue
        number = cells.setdefault(str(held), len(cells))
        if number == len(blocks):
            blocks.append(held)
        of.append(number)
    pending = any(
        isinstance(placement, Partial) and subject.mesh_shape[mesh_dim] > 1
        for mesh_dim, placement in enumerate(subject.layout.placements)
    )
    return {"text": short(subject.text), "cells": blocks, "of": of, "pending": pending}


def _boxes(subject: Subject, dims: Sequence[int], at: Coordinate) -> list[Box]:
    """What a rank holds in the tensor dims that are drawn; nothing if it has no element."""
    held = held_intervals(subject.cuts, subject.shape, subject.mesh_shape, at)
    if not all(held):
        return []
    missing: list[tuple[Interval, ...]] = [((0, 1),)] * (2 - len(dims))
    rows, columns = missing + [held[dim] for dim in dims]
    return [[*r, *c] for r in rows for c in columns]


def _paint(subjects: Sequence[Subject], dims: Sequence[int]) -> list[list[Any]]:
    """Parts of the tensor with a colour each: the blocks of the layout that cuts it finest, so that
    one sees where they come from and where they go."""
    counts = [math.prod(s.mesh_shape[m] for m in _cutting(s, dims)) for s in subjects]
    finest = subjects[counts.index(max(counts))]
    if max(counts) > _MOST_PARTS:
        return _bands(finest, dims)
    by = _cutting(finest, dims)
    axes = [range(size) if m in by else range(1) for m, size in enumerate(finest.mesh_shape)]
    return [
        [rank_colour(at, finest.mesh_shape, by), *box]
        for at in itertools.product(*axes)
        for box in _boxes(finest, dims, at)
    ]


def _cutting(subject: Subject, dims: Sequence[int]) -> tuple[int, ...]:
    return tuple(
        sorted(
            cut.mesh_dim
            for cut in subject.cuts
            if cut.tensor_dim in dims and subject.mesh_shape[cut.mesh_dim] > 1
        )
    )


def _bands(subject: Subject, dims: Sequence[int]) -> list[list[Any]]:
    """The tensor in bands along the dims that are cut, whoever holds them."""
    cut = {each.tensor_dim for each in subject.cuts}
    counts = [_BANDS if dim in cut and subject.shape[dim] >= _BANDS else 1 for dim in dims]
    missing = 2 - len(dims)
    sizes = [1] * missing + [subject.shape[dim] for dim in dims]
    rows, columns = [1] * missing + counts
    return [
        [
            rank_colour(
                (row, column), (rows, columns), [a for a in (0, 1) if (rows, columns)[a] > 1]
            ),
            *(sizes[0] * edge // rows for edge in (row, row + 1)),
            *(sizes[1] * edge // columns for edge in (column, column + 1)),
        ]
        for row in range(rows)
        for column in range(columns)
    ]


def _drawn_ranks(
    mesh_shape: Sequence[int], mesh: dict[str, Any], steps: Sequence[dict[str, Any]]
) -> tuple[list[Coordinate], list[str]]:
    """Coordinates of the ranks to draw; and in words which are left out."""
    shown, notes = [list(range(size)) for size in mesh_shape], []
    touched = {mesh_dim for step in steps for mesh_dim in step["mesh_dims"]}
    for mesh_dim, size in enumerate(mesh_shape):
        if math.prod(map(len, shown)) > _MOST_RANKS and mesh_dim not in touched and size > 1:
            shown[mesh_dim] = [0]
            notes.append(f"drawn at {over_text(mesh, [mesh_dim])} 0 of {size}")
    for mesh_dim, coordinates in enumerate(shown):
        size = len(coordinates)
        if math.prod(map(len, shown)) > _MOST_RANKS and size > _SPREAD:
            shown[mesh_dim] = [at * (size - 1) // (_SPREAD - 1) for at in range(_SPREAD)]
            notes.append(f"drawn at {_SPREAD} of {size} along {over_text(mesh, [mesh_dim])}")
    return list(itertools.product(*shown)), notes


def _grid(ranks: Sequence[Coordinate], mesh: dict[str, Any]) -> dict[str, Any]:
    """The ranks in rows: the first mesh dims down the page, the others along it, near a square.

    Labels of columns have one line for each mesh dim.
    """
    counts = [len({at[m] for at in ranks}) for m in range(len(mesh["shape"]))]
    active = [m for m, count in enumerate(counts) if count > 1]
    sizes = [counts[m] for m in active]
    numbers = [_rank(mesh["ranks"], at) for at in ranks]
    fitting = [n for n in range(len(active) + 1) if math.prod(sizes[n:]) <= _ACROSS]
    # As few rows as columns, or fewer; a mesh dim that is too long for a row goes on in the next,
    # and the ranks alone tell where.
    down = min(fitting, key=lambda n: abs(math.log(math.prod(sizes[:n]) / math.prod(sizes[n:]))))
    across = math.prod(sizes[down:])
    if across == 1 and len(ranks) > 1:
        rows = -(-len(ranks) // _ACROSS)
        return {"rows": [""] * rows, "columns": [[]] * _ACROSS, "ranks": numbers}

    def labels(at: Coordinate, mesh_dims: Sequence[int]) -> list[str]:
        names = mesh["dim_names"]
        return [str(at[m]) if names[m].isdigit() else f"{names[m]} {at[m]}" for m in mesh_dims]

    return {
        "rows": [" ".join(labels(at, active[:down])) for at in ranks[::across]],
        "columns": [labels(at, active[down:]) for at in ranks[:across]],
        "ranks": numbers,
    }


def _rank(ranks: Any, at: Coordinate) -> int:
    for index in at:
        ranks = ranks[index]
    return int(ranks)
