"""Gathers that torch would merge on a flattened mesh, though they cut otherwise together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from .. import _torch
from .._torch import DTensorSpec, Placement, Replicate, Shard, is_shard, is_strided
from ..model.plan_steps import Layout
from .cut_order import Change, cuts_of, layouts_before

__all__ = ["not_to_merge"]


def not_to_merge(moves: Sequence[Change], spec: DTensorSpec) -> list[range]:
    """Runs of gathers of one tensor dim that leave wrong data if they are one gather.

    torch cuts a dim of 13 by 2 and then by 3 into 3, 3, 1, 2, 2 and 2, and by 6 into 3, 3, 3, 3, 1
    and 0. What is said is the same on every rank, whichever piece it has of outer cuts.

    Args:
        moves: In the order of the cuts that they undo.
        spec: What they start from.

    Returns:
        Indexes into `moves`.
    """
    runs = [run for run in _runs(moves) if _may_be_uneven(moves[run.start][1], spec)]
    if not runs:
        return []
    layouts = layouts_before(moves, cuts_of(spec))
    return [run for run in runs if _is_uneven(run, moves, layouts[run.start], spec)]


def _runs(moves: Sequence[Change]) -> Iterator[range]:
    """Gathers that torch would merge: they follow each other, from equal placements, and from the
    last mesh dim to the first."""
    start = 0
    while start < len(moves):
        _, before, after = moves[start]
        end = start + 1
        if is_shard(before) and isinstance(after, Replicate):
            while end < len(moves) and moves[end][1:] == (before, after):
                end += 1
            run = [mesh_dim for mesh_dim, _, _ in moves[start:end]]
            if len(run) > 1 and run == sorted(run, reverse=True):
                yield range(start, end)
        start = end


def _may_be_uneven(placement: Placement, spec: DTensorSpec) -> bool:
    """What most plans are known by at once."""
    return is_strided(placement) or spec.shape[placement.dim] % spec.mesh.size() != 0  # type: ignore[attr-defined]


def _is_uneven(run: range, moves: Sequence[Change], layout: Layout, spec: DTensorSpec) -> bool:
    placement = moves[run.start][1]
    if is_strided(placement):
        return True  # torch has no gather of strided shards on a flattened mesh
    tensor_dim: int = placement.dim  # type: ignore[attr-defined]
    mesh_sizes, size = spec.mesh.shape, spec.shape[tensor_dim]
    cuts = dict(layout.shard_order).get(tensor_dim, ())
    if size % prod(mesh_sizes[m] for m in cuts) == 0:
        return False
    merged = {moves[index][0] for index in run}
    sizes = {size}
    for mesh_dim in cuts:
        if mesh_dim in merged:
            break
        ranks = mesh_sizes[mesh_dim]
        cut = layout.placements[mesh_dim]
        sizes = {_torch.local_size(cut, n, ranks, rank) for n in sizes for rank in range(ranks)}
    counts = [mesh_sizes[m] for m in cuts if m in merged]
    return any(_pieces(n, counts) != _pieces(n, [prod(counts)]) for n in sizes)


def _pieces(size: int, ranks: Sequence[int]) -> list[int]:
    """The sizes that plain shards cut, one after the other."""
    pieces = [size]
    for count in ranks:
        pieces = [
            _torch.local_size(Shard(0), n, count, rank) for n in pieces for rank in range(count)
        ]
    return pieces
