"""Which rank holds which block of a tensor.

Plain numbers in, plain numbers out: nothing is asked of a process group, so the picture of a mesh
can be drawn where there is no such mesh.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..._torch import is_partial, is_shard, is_strided
from ...errors import ShardpropError
from ...model.plan_steps import Layout

__all__ = ["Block", "Interval", "blocks", "joined"]

# Half-open, [start, stop).
Interval = tuple[int, int]
_Held = Callable[[Sequence[int]], tuple[Interval, ...]]


class _Cut(NamedTuple):
    """One mesh dim cutting one tensor dim.

    Attributes:
        tensor_dim: What is cut.
        mesh_dim: The ranks along it get one piece each, as `torch.chunk` makes them.
        split_factor: Of a strided shard: the tensor dim is first chunked into so many parts, and
            each rank gets its piece of every part. 1 for a plain shard.
    """

    tensor_dim: int
    mesh_dim: int
    split_factor: int


@dataclass(frozen=True)
class Block:
    """What one rank holds of a tensor.

    Attributes:
        rank: Its place among the ranks of the mesh, in row-major order of the coordinates.
        coordinate: Its coordinate on each mesh dim.
        intervals: Per tensor dim the half-open index ranges that it holds, ascending and apart
            from each other: one under plain shards, several under a strided one, none where
            there was nothing left for this rank.
        copied_over: Mesh dims of size over 1 whose other ranks hold the same values.
        pending_over: Mesh dims of size over 1 over which a Partial is still to be reduced; the rank
            holds a contribution to the block, not its values.
    """

    rank: int
    coordinate: tuple[int, ...]
    intervals: tuple[tuple[Interval, ...], ...]
    copied_over: tuple[int, ...]
    pending_over: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the local tensor."""
        return tuple(sum(stop - start for start, stop in dim) for dim in self.intervals)

    @property
    def empty(self) -> bool:
        """Does the rank hold no element?"""
        return not all(self.intervals)

    @property
    def boxes(self) -> tuple[tuple[Interval, ...], ...]:
        """The block as boxes, each with one range per tensor dim."""
        return tuple(itertools.product(*self.intervals))


def blocks(layout: Layout, shape: Sequence[int], mesh_shape: Sequence[int]) -> list[Block]:
    """What each rank of a mesh holds of a tensor, in row-major order of the coordinates.

    Pieces are those of `torch.chunk`, so the last ranks may hold less or nothing; the mesh dims
    that cut one tensor dim do so in the order of `layout.shard_order`.

    Args:
        layout: Placements and shard order. With an empty shard order, or none for a tensor dim, its
            mesh dims cut it from left to right.
        shape: The shape of the whole tensor.
        mesh_shape: How many ranks there are along each mesh dim.

    Raises:
        ShardpropError: another number of placements than of mesh dims, a tensor dim that is not
            there, sizes that are no plain numbers, or a shard order of other cuts than those of
            the placements.
    """
    sizes, ranks = _plain("shape", shape, 0), _plain("mesh_shape", mesh_shape, 1)
    cuts = _cuts(layout, len(sizes), ranks)
    cutting = {cut.mesh_dim for cut in cuts}
    active = [dim for dim in range(len(ranks)) if ranks[dim] > 1]
    pending = tuple(dim for dim in active if is_partial(layout.placements[dim]))
    copied = tuple(dim for dim in active if dim not in cutting and dim not in pending)
    held_of = [
        _held_of(size, [cut for cut in cuts if cut.tensor_dim == dim], ranks)
        for dim, size in enumerate(sizes)
    ]
    return [
        Block(rank, at, tuple(held(at) for held in held_of), copied, pending)
        for rank, at in enumerate(itertools.product(*map(range, ranks)))
    ]


def _cuts(layout: Layout, tensor_dims: int, mesh_shape: Sequence[int]) -> tuple[_Cut, ...]:
    """The cuts of a layout in the order in which they are made.

    Raises:
        ShardpropError: the layout does not fit the tensor, the mesh or itself.
    """
    placements = layout.placements
    if len(placements) != len(mesh_shape):
        raise ShardpropError(
            f"layout: Expected a placement for each of {len(mesh_shape)} mesh dims, got "
            f"{len(placements)}: {placements}."
        )
    cut_by: dict[int, list[int]] = {}
    for mesh_dim, placement in enumerate(placements):
        if is_shard(placement):
            tensor_dim: int = placement.dim  # type: ignore[attr-defined]
            if not 0 <= tensor_dim < tensor_dims:
                raise ShardpropError(
                    f"layout: Expected a shard of one of {tensor_dims} tensor dims, got "
                    f"{placement} on mesh dim {mesh_dim}."
                )
            cut_by.setdefault(tensor_dim, []).append(mesh_dim)
    orders = {dim: tuple(mesh_dims) for dim, mesh_dims in layout.shard_order}
    for tensor_dim in orders.keys() - cut_by.keys():
        raise ShardpropError(
            f"layout: Expected an order of tensor dims that are sharded, got one of dim "
            f"{tensor_dim}: {layout.shard_order}."
        )
    return tuple(
        _Cut(tensor_dim, mesh_dim, _split_factor(layout, mesh_dim))
        for tensor_dim, mesh_dims in sorted(cut_by.items())
        for mesh_dim in _ordered(tensor_dim, mesh_dims, orders.get(tensor_dim), mesh_shape)
    )


def _ordered(
    tensor_dim: int, mesh_dims: list[int], order: tuple[int, ...] | None, mesh_shape: Sequence[int]
) -> Sequence[int]:
    if order is None:
        return mesh_dims
    # The core leaves mesh dims of size 1 out: they cut nothing.
    cutting = {dim for dim in mesh_dims if mesh_shape[dim] > 1}
    if len(set(order)) < len(order) or not cutting <= set(order) <= set(mesh_dims):
        raise ShardpropError(
            f"layout: Expected the order of mesh dims {sorted(cutting)} for tensor dim "
            f"{tensor_dim}, got {order}."
        )
    return order


def _split_factor(layout: Layout, mesh_dim: int) -> int:
    placement = layout.placements[mesh_dim]
    return int(placement.split_factor) if is_strided(placement) else 1  # type: ignore[attr-defined]


def _held_of(size: int, cuts: Sequence[_Cut], mesh_shape: Sequence[int]) -> _Held:
    """From the coordinate of a rank to what it holds of a tensor dim after the cuts of that dim."""

    @functools.cache
    def held(*at: int) -> tuple[Interval, ...]:
        ranges: Sequence[Interval] = [(0, size)] if size else []
        for cut, index in zip(cuts, at, strict=True):
            count = sum(stop - start for start, stop in ranges)
            ranges = [
                taken
                for start, stop in _pieces(count, cut, mesh_shape[cut.mesh_dim], index)
                for taken in _taken(ranges, start, stop)
            ]
        return joined(ranges)

    return lambda at: held(*(at[cut.mesh_dim] for cut in cuts))


def _pieces(size: int, cut: _Cut, ranks: int, coordinate: int) -> list[Interval]:
    """What a cut leaves of `size` elements to one rank: one range of each part."""
    found = []
    for part in range(cut.split_factor):
        start, stop = _chunk(size, cut.split_factor, part)
        first, last = _chunk(stop - start, ranks, coordinate)
        if first < last:
            found.append((start + first, start + last))
    return found


def _chunk(size: int, chunks: int, index: int) -> Interval:
    """As `torch.chunk`: all of one length, but for the last of them."""
    length = -(-size // chunks)
    return min(length * index, size), min(length * (index + 1), size)


def _taken(ranges: Sequence[Interval], start: int, stop: int) -> list[Interval]:
    """The elements from number `start` to `stop` of those that `ranges` hold."""
    found, before = [], 0
    for first, last in ranges:
        low, high = max(start - before, 0), min(stop - before, last - first)
        if low < high:
            found.append((first + low, first + high))
        before += last - first
    return found


def joined(ranges: Iterable[Interval]) -> tuple[Interval, ...]:
    """Ascending ranges, those that touch made one."""
    found: list[Interval] = []
    for start, stop in ranges:
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return tuple(found)


def _plain(name: str, sizes: Sequence[int], least: int) -> tuple[int, ...]:
    for size in sizes:
        if not isinstance(size, int) or isinstance(size, bool) or size < least:
            raise ShardpropError(
                f"{name}: Expected whole numbers of at least {least}, got {tuple(sizes)}."
            )
    return tuple(sizes)
