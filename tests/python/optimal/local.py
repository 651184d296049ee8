"""What each rank of a mesh holds of a tensor under a layout, computed from the definition."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch

from shardprop._torch import Partial, StridedShard
from shardprop.model.plan_steps import Layout

Places = tuple[int, ...]


def places(sizes: Sequence[int]) -> list[Places]:
    """Where the ranks are in the mesh, in the order of their numbers."""
    return list(itertools.product(*map(range, sizes)))


def cut(whole: torch.Tensor, layout: Layout, sizes: Sequence[int], place: Places) -> torch.Tensor:
    """The piece of a rank: for each tensor dim one cut after the other."""
    for dim, mesh_dims in layout.shard_order:
        for m in mesh_dims:
            placement = layout.placements[m]
            factor = int(placement.split_factor) if isinstance(placement, StridedShard) else 1
            parts = _chunks(whole, dim, factor)
            pieces = [_chunks(part, dim, sizes[m])[place[m]] for part in parts]
            whole = torch.cat(pieces, dim)
    return whole.contiguous()


def _chunks(tensor: torch.Tensor, dim: int, count: int) -> list[torch.Tensor]:
    """`count` pieces; the last ones are smaller, or empty."""
    size = -(-tensor.size(dim) // count)
    bounds = [min(size * index, tensor.size(dim)) for index in range(count + 1)]
    return [tensor.narrow(dim, a, b - a) for a, b in itertools.pairwise(bounds)]


def _pending(layout: Layout, sizes: Sequence[int]) -> dict[int, str]:
    """The mesh dims that have something pending, and the operation."""
    return {
        m: p.reduce_op
        for m, p in enumerate(layout.placements)
        if isinstance(p, Partial) and sizes[m] > 1
    }


def split(
    whole: torch.Tensor, layout: Layout, sizes: Sequence[int], seed: int
) -> list[torch.Tensor]:
    """The tensors of all ranks: integers of which the pending operations make those of `whole`."""
    generator = torch.Generator().manual_seed(seed)
    pending = _pending(layout, sizes)
    keys = list(itertools.product(*(range(sizes[m]) for m in pending)))
    ops = set(pending.values())

    def noise(low: int, high: int) -> torch.Tensor:
        return torch.randint(low, high, whole.shape, generator=generator).to(whole.dtype)

    if not ops:
        parts = [whole]
    elif ops <= {"sum", "avg"}:
        scale = math.prod(sizes[m] for m, op in pending.items() if op == "avg")
        parts = [noise(-50, 50) for _ in keys[1:]]
        parts.append(whole * scale - sum(parts, torch.zeros_like(whole)))
    elif ops == {"product"}:
        parts = [torch.ones_like(whole) for _ in keys]
        parts[int(torch.randint(len(keys), (), generator=generator))] = whole
    else:
        sign = -1 if ops == {"max"} else 1
        parts = [whole + sign * noise(0, 50) for _ in keys]
        parts[int(torch.randint(len(keys), (), generator=generator))] = whole
    part_of = dict(zip(keys, parts, strict=True))
    return [
        cut(part_of[tuple(place[m] for m in pending)], layout, sizes, place)
        for place in places(sizes)
    ]


def fault(
    made: Sequence[torch.Tensor], whole: torch.Tensor, layout: Layout, sizes: Sequence[int]
) -> str | None:
    """Why the tensors of all ranks are not `whole` under the layout; None if they are."""
    pending = _pending(layout, sizes)
    rank_at = {place: rank for rank, place in enumerate(places(sizes))}
    for place, rank in rank_at.items():
        expected = cut(whole, layout, sizes, place)
        if made[rank].shape != expected.shape:
            return f"rank {rank} has {list(made[rank].shape)}, not {list(expected.shape)}"
        if made[rank].dtype != expected.dtype:
            return f"rank {rank} has {made[rank].dtype}"
        ranges = [range(sizes[m]) if m in pending else [p] for m, p in enumerate(place)]
        parts = torch.stack([made[rank_at[other]] for other in itertools.product(*ranges)])
        if not torch.allclose(_reduced(parts, pending, sizes), expected):
            return f"rank {rank} has {made[rank].tolist()}, not {expected.tolist()}"
    return None


def _reduced(parts: torch.Tensor, pending: dict[int, str], sizes: Sequence[int]) -> torch.Tensor:
    ops = set(pending.values())
    if ops == {"max"}:
        return parts.amax(0)
    if ops == {"min"}:
        return parts.amin(0)
    if ops == {"product"}:
        return parts.prod(0, dtype=parts.dtype)
    total = parts.sum(0, dtype=parts.dtype)
    scale = math.prod(sizes[m] for m, op in pending.items() if op == "avg")
    return total if scale == 1 else total / scale
