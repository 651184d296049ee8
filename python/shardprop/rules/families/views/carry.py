"""Where the shards of a view op's input are in its output."""

from __future__ import annotations

import functools
import math

from ...._torch import Placement, Shard, StridedShard, SymInt, split_factor_has_hint
from .declined import Declined
from .dim_map import DimMap, Group
from .shards import NOT_SHARDED, Shards

__all__ = ["carry", "shard_on"]


@functools.lru_cache(maxsize=256)
def shard_on(dim: int) -> Shard:
    """Shard(dim), made once."""
    return Shard(dim)


def carry(
    wanted: tuple[Placement, ...],
    shards: Shards,
    dims: DimMap,
    outputs_of: dict[int, tuple[int, ...]],
    strict: bool,
) -> tuple[Placement, ...]:
    """The output placements.

    Args:
        wanted: The wanted input placements.
        shards: The same, as numbers.
        dims: How the op makes its output dims.
        outputs_of: The output dims that shards of an input dim can go to.
        strict: The op may not redistribute its input.

    Raises:
        Declined: torch raises.
    """
    output = list(wanted)
    local = list(shards.shape)  # after the mesh dims so far
    claimed: set[int] = set()  # output dims that took a strided shard
    for mesh_dim, dim in enumerate(shards.dim_at):
        if dim == NOT_SHARDED:
            continue
        group = dims.group_of[dim]
        free = [to for to in outputs_of.get(dim, ()) if to not in claimed]
        if not free:
            raise Declined("a shard that no output dim is left for")
        if shards.factor_at[mesh_dim] is None:
            output[mesh_dim] = _plain(shards, mesh_dim, group, free, local)
        else:
            output[mesh_dim] = _strided(shards, mesh_dim, group, free, claimed, strict)
        local[dim] //= shards.mesh_sizes[mesh_dim]
    return tuple(output)


def _plain(
    shards: Shards, mesh_dim: int, group: Group, free: list[int], local: list[int]
) -> Placement:
    dim, to = shards.dim_at[mesh_dim], free[0]
    if not group.pieces:
        if len(group.merged) == 1:
            return shard_on(to)
        return _merged(shards, mesh_dim, group, local)
    if len(free) > 1 and to != group.outputs[0]:
        raise Declined("a shard of a dim whose first piece is taken")
    if dim != group.merged[0]:
        raise Declined("a shard of a dim that is merged and cut")
    return shard_on(to)


def _merged(shards: Shards, mesh_dim: int, group: Group, local: list[int]) -> Placement:
    dim, first, last = shards.dim_at[mesh_dim], group.merged[0], group.merged[-1]
    output: Placement = shard_on(group.outputs[0])
    if dim != first:
        factor = math.prod(local[first:dim])
        if isinstance(factor, SymInt) and not split_factor_has_hint(factor):
            raise Declined("a symbolic split factor without a hint")
        output = StridedShard(group.outputs[0], split_factor=factor)
    # A strided shard has as many groups on every rank. What is uneven here would be counted in the
    # groups of later shards of this dim or of dims inside it.
    if local[dim] % shards.mesh_sizes[mesh_dim] != 0 and any(
        dim <= later <= last for later in shards.dim_at[mesh_dim + 1 :]
    ):
        raise Declined("an uneven shard of a dim that is merged")
    return output


def _strided(
    shards: Shards, mesh_dim: int, group: Group, free: list[int], claimed: set[int], strict: bool
) -> Placement:
    if group.pieces:
        for to in free:
            if shards.is_of_piece(mesh_dim, group, group.outputs.index(to)):
                claimed.add(to)
                return shard_on(to)
    kept = _whole_runs(shards, mesh_dim, group, free)
    if kept is None:
        if strict and group.pieces:
            raise Declined("a strided shard that fits no piece")
        kept = free[0]
    return StridedShard(kept, split_factor=shards.factor_at[mesh_dim])


def _whole_runs(shards: Shards, mesh_dim: int, group: Group, free: list[int]) -> int | None:
    """The first piece of which one run of a strided shard holds a whole number."""
    dim = shards.dim_at[mesh_dim]
    runs = shards.mesh_sizes[mesh_dim] * shards.factor_at[mesh_dim]
    if shards.shape[dim] % runs != 0 or not group.pieces:
        return None
    run = shards.shape[dim] // runs
    for inner in group.merged[group.merged.index(dim) + 1 :]:
        run = run * shards.shape[inner]
    for to in free:
        inside = math.prod(group.pieces[group.outputs.index(to) + 1 :])
        if run >= inside and run % inside == 0:
            return to
    return None
