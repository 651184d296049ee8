"""Tensors laid out over the ranks of a mesh, all of them in one process.

Mesh dims are applied from left to right, as torch does: a placement cuts what the placements before
it have left. Strided shards that stand for a shard order are cuts in that order, as torch's planner
has them; where sizes do not divide, these are other pieces. Local tensors are in rank-major order:
that of the last mesh dim varies fastest.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from ..._torch import (
    Placement,
    Replicate,
    Shard,
    has_strided,
    is_partial,
    is_shard,
    is_strided,
    order_of_strided,
)
from ...model.local_shapes import Shape, runs_of_ranks
from .compare import difference, largest
from .partials import Tensors, Untestable, parts, reduced

__all__ = [
    "CutOrder",
    "Mismatch",
    "cut_order_of",
    "join",
    "local_shapes",
    "places_of",
    "split",
    "summed_scale",
]


class Mismatch(Exception):
    """Local tensors that no whole tensor is laid out as; its text says why."""


class CutOrder(NamedTuple):
    """A layout as cuts from left to right.

    Attributes:
        placements: The cuts, each on its mesh dim.
        mesh_sizes: Ranks of these mesh dims.
        ranks: The ranks of the mesh itself, in the rank-major order of these mesh dims.
    """

    placements: tuple[Placement, ...]
    mesh_sizes: tuple[int, ...]
    ranks: Sequence[int]


def cut_order_of(placements: Sequence[Placement], mesh_sizes: Sequence[int]) -> CutOrder:
    """The mesh dims in an order in which they cut; strided shards that stand for one are plain."""
    ranks = range(math.prod(mesh_sizes))
    order = order_of_strided(placements, mesh_sizes) if has_strided(placements) else None
    if order is None:
        return CutOrder(tuple(placements), tuple(mesh_sizes), ranks)
    turns = [*range(len(mesh_sizes))]
    for _, mesh_dims in order:
        for place, mesh_dim in zip(sorted(mesh_dims), mesh_dims, strict=True):
            turns[place] = mesh_dim
    plain = [Shard(p.dim) if is_strided(p) else p for p in placements]  # type: ignore[attr-defined]
    in_turn = torch.tensor(ranks).reshape(*mesh_sizes).permute(turns).flatten().tolist()
    return CutOrder(tuple(plain[m] for m in turns), tuple(mesh_sizes[m] for m in turns), in_turn)


def _check_dim(placement: Placement, ndim: int) -> None:
    if not 0 <= placement.dim < ndim:  # type: ignore[attr-defined]
        raise Untestable("shard of a tensor dim that the tensor does not have")


def _cut(whole: torch.Tensor, placement: Placement, ranks: int, rng: torch.Generator) -> Tensors:
    if is_shard(placement):
        _check_dim(placement, whole.ndim)
        dim: int = placement.dim  # type: ignore[attr-defined]
        return [
            torch.cat([whole.narrow(dim, *run) for run in runs], dim).contiguous()
            if len(runs) > 1
            else whole.narrow(dim, *runs[0]).clone(memory_format=torch.contiguous_format)
            for runs in runs_of_ranks(whole.shape[dim], placement, ranks)
        ]
    if is_partial(placement):
        return parts(whole, placement, ranks, rng)  # type: ignore[arg-type]
    raise Untestable(f"placement {type(placement).__name__}")


def split(
    whole: torch.Tensor,
    placements: Sequence[Placement],
    mesh_sizes: Sequence[int],
    rng: torch.Generator,
) -> Tensors:
    """The local tensors of all ranks. Replicas are one tensor: clone what is to be written to.

    Raises:
        Untestable: a placement of another kind, or one that the tensor cannot have.
    """
    order = cut_order_of(placements, mesh_sizes)
    pieces = _split(whole, order.placements, order.mesh_sizes, rng)
    of_ranks = dict(zip(order.ranks, pieces, strict=True))
    return [of_ranks[rank] for rank in range(len(pieces))]


def _split(
    whole: torch.Tensor,
    placements: Sequence[Placement],
    mesh_sizes: Sequence[int],
    rng: torch.Generator,
) -> Tensors:
    if not mesh_sizes:
        return [whole]
    (first, *rest), (ranks, *sizes) = placements, mesh_sizes
    if type(first) is Replicate:
        return _split(whole, rest, sizes, rng) * ranks
    pieces = _cut(whole, first, ranks, rng)
    if not sizes:
        return pieces
    return [local for piece in pieces for local in _split(piece, rest, sizes, rng)]


def local_shapes(
    shape: Sequence[int], placements: Sequence[Placement], mesh_sizes: Sequence[int]
) -> tuple[Shape, ...]:
    """The shape that each rank holds.

    Raises:
        Untestable: a shard of a dim that is not there.
    """
    return _shapes_by_rank(tuple(shape), tuple(placements), tuple(mesh_sizes))


@functools.lru_cache(maxsize=4096)
def _shapes_by_rank(
    shape: Shape, placements: tuple[Placement, ...], mesh_sizes: tuple[int, ...]
) -> tuple[Shape, ...]:
    order = cut_order_of(placements, mesh_sizes)
    shapes = _local_shapes(shape, order.placements, order.mesh_sizes)
    of_ranks = dict(zip(order.ranks, shapes, strict=True))
    return tuple(of_ranks[rank] for rank in range(len(shapes)))


def _local_shapes(
    shape: Shape, placements: tuple[Placement, ...], mesh_sizes: tuple[int, ...]
) -> tuple[Shape, ...]:
    if not mesh_sizes:
        return (shape,)
    (first, *rest), (ranks, *sizes) = placements, mesh_sizes
    if not is_shard(first):
        return _local_shapes(shape, tuple(rest), tuple(sizes)) * ranks
    _check_dim(first, len(shape))
    dim: int = first.dim  # type: ignore[attr-defined]
    made: list[Shape] = []
    for runs in runs_of_ranks(shape[dim], first, ranks):
        piece = (*shape[:dim], sum(length for _, length in runs), *shape[dim + 1 :])
        made += _local_shapes(piece, tuple(rest), tuple(sizes))
    return tuple(made)


def summed_scale(local: Tensors, placements: Sequence[Placement]) -> float:
    """The largest element among local tensors that are summed on the way to the whole one."""
    return max(map(largest, local)) if any(map(is_partial, placements)) else 0.0


def join(
    local: Tensors,
    placements: Sequence[Placement],
    mesh_sizes: Sequence[int],
    shape: Sequence[int],
) -> torch.Tensor:
    """The whole tensor, of shape `shape`, that the local tensors stand for.

    Raises:
        Mismatch: replicas that differ, or local tensors of the wrong shape.
        Untestable: a placement of another kind.
    """
    wanted = local_shapes(shape, placements, mesh_sizes)
    for rank, (tensor, local_shape) in enumerate(zip(local, wanted, strict=True)):
        if tensor.shape != local_shape:
            raise Mismatch(
                f"rank {rank} has shape {list(tensor.shape)} instead of {list(local_shape)}"
            )
    order = cut_order_of(placements, mesh_sizes)
    pieces = [local[rank] for rank in order.ranks]
    return _joined(pieces, order.placements, order.mesh_sizes, shape)


def _joined(
    local: Tensors,
    placements: Sequence[Placement],
    mesh_sizes: Sequence[int],
    shape: Sequence[int],
) -> torch.Tensor:
    if not mesh_sizes:
        return local[0]
    (first, *rest), (ranks, *sizes) = placements, mesh_sizes
    each = len(local) // ranks
    groups = [local[each * rank : each * (rank + 1)] for rank in range(ranks)]
    sharded = is_shard(first)
    shapes = local_shapes(shape, [first], [ranks]) if sharded else (tuple(shape),) * ranks
    pieces = [
        _joined(group, rest, sizes, piece) for group, piece in zip(groups, shapes, strict=True)
    ]
    if type(first) is Replicate:
        return _agreed(pieces)
    if is_partial(first):
        return reduced(pieces, first)  # type: ignore[arg-type]
    if not sharded:
        raise Untestable(f"placement {type(first).__name__}")
    return _in_order(torch.cat(pieces, first.dim), first, shape, ranks)  # type: ignore[attr-defined]


def _agreed(replicas: Tensors) -> torch.Tensor:
    """One of the replicas. All of them are compared to it; it, by the caller, to what it should be.

    They may have been summed in another order on each rank.
    """
    if all(torch.equal(replica, replicas[0]) for replica in replicas[1:]):
        return replicas[0]
    scale = max(map(largest, replicas)) * len(replicas)
    for rank, replica in enumerate(replicas[1:], 1):
        unlike = difference(replica, replicas[0], scale)
        if unlike is not None:
            raise Mismatch(f"replicas on ranks 0 and {rank} are not the same: {unlike}")
    return replicas[0]


def _in_order(
    pieces: torch.Tensor, placement: Placement, shape: Sequence[int], ranks: int
) -> torch.Tensor:
    """Concatenated pieces of a sharded dim, in the order of the whole tensor."""
    if isinstance(placement, Shard):
        return pieces
    dim: int = placement.dim  # type: ignore[attr-defined]
    places = places_of(shape[dim], placement, ranks)
    return pieces.index_select(dim, torch.tensor(places, dtype=torch.int64))


def places_of(size: int, placement: Placement, ranks: int) -> list[int]:
    """Where the elements of a sharded dim lie in the ranks' pieces, one after another."""
    held = itertools.chain.from_iterable(runs_of_ranks(size, placement, ranks))
    order = [index for start, length in held for index in range(start, start + length)]
    return sorted(range(size), key=order.__getitem__)
