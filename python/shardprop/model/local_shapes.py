"""What ranks hold of tensors that are sharded over a mesh: shapes, and where in a dim."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from .. import _torch
from .._torch import Placement, Shard, StridedShard, is_shard
from .placements import Placements

__all__ = ["Run", "Shape", "runs_of_ranks", "shapes_held"]

Shape = tuple[int, ...]
# Start and length.
Run = tuple[int, int]
# A tensor by its place among others, and how a mesh dim shards it.
_Cut = tuple[int, Placement]


def shapes_held(
    shapes: Iterable[Sequence[int]], layouts: Sequence[Placements], mesh_sizes: Iterable[int]
) -> set[tuple[Shape, ...]]:
    """The shapes that some rank holds of all tensors at once: one entry for ranks that are alike.

    Mesh dims cut from left to right, as torch has it.

    Args:
        shapes: Of the whole tensors.
        layouts: Of each tensor its placements over the mesh.
        mesh_sizes: Ranks per mesh dim.
    """
    held = {tuple(map(tuple, shapes))}
    for mesh_dim, ranks in enumerate(mesh_sizes):
        placements = [layout[mesh_dim] for layout in layouts]
        cuts = [(at, placement) for at, placement in enumerate(placements) if is_shard(placement)]
        held = {
            _cut(whole, cuts, ranks, rank) for whole in held for rank in _apart(whole, cuts, ranks)
        }
    return held


def _apart(whole: Sequence[Shape], cuts: Sequence[_Cut], ranks: int) -> Iterable[int]:
    """Ranks of which each other rank holds as much as one of them."""
    if any(isinstance(placement, StridedShard) for _, placement in cuts):
        return range(ranks)
    # Full pieces come first, then a smaller one, then none.
    sizes = {whole[at][placement.dim] for at, placement in cuts}  # type: ignore[attr-defined]
    smaller = {size // -(-size // ranks) for size in sizes if size}
    return {0, ranks - 1} | {rank for rank in smaller if rank < ranks}


def _cut(whole: Sequence[Shape], cuts: Iterable[_Cut], ranks: int, rank: int) -> tuple[Shape, ...]:
    local = [*whole]
    for at, placement in cuts:
        dim: int = placement.dim  # type: ignore[attr-defined]
        shape = local[at]
        size = _torch.local_size(placement, shape[dim], ranks, rank)
        local[at] = (*shape[:dim], size, *shape[dim + 1 :])
    return tuple(local)


def runs_of_ranks(size: int, placement: Placement, ranks: int) -> list[list[Run]]:
    """Per rank of a mesh dim the runs of a sharded tensor dim that it holds, in its order."""
    if isinstance(placement, Shard):
        return [[run] for run in _runs(size, ranks)]
    factor = int(placement.split_factor)  # type: ignore[attr-defined]
    inner = [_runs(length, ranks, start) for start, length in _runs(size, factor)]
    return [[chunks[rank] for chunks in inner] for rank in range(ranks)]


def _runs(size: int, chunks: int, start: int = 0) -> list[Run]:
    """Each of so many chunks, as ``torch.chunk`` cuts; the last ones may be empty."""
    step = -(-size // chunks)
    cuts = [min(size, step * k) for k in range(chunks + 1)]
    return [(start + a, b - a) for a, b in itertools.pairwise(cuts)]
