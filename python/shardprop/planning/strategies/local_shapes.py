"""The largest shards of a tensor under many layouts, from which the work on a rank follows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..._torch import Shard, StridedShard
from ...model.placements import Placements

__all__ = ["largest_shard", "largest_shards"]


def largest_shards(
    shape: Sequence[int], mesh_shape: Sequence[int], layouts: Sequence[Placements]
) -> NDArray[np.int64]:
    """Shapes [layouts, tensor dims]."""
    shapes = np.empty((len(layouts), len(shape)), np.int64)
    for index, layout in enumerate(layouts):
        shapes[index] = largest_shard(shape, mesh_shape, layout)
    return shapes


def largest_shard(
    shape: Sequence[int], mesh_shape: Sequence[int], layout: Placements
) -> tuple[int, ...]:
    """Per tensor dim the most elements that a rank holds; mesh dims cut from left to right."""
    held = [{int(size)} for size in shape]
    for ranks, placement in zip(mesh_shape, layout, strict=True):
        if isinstance(placement, Shard):
            held[placement.dim] = {n for s in held[placement.dim] for n in _chunks(s, ranks)}
        elif isinstance(placement, StridedShard):
            factor = int(placement.split_factor)
            held[placement.dim] = {
                n for s in held[placement.dim] for n in _strided(s, ranks, factor)
            }
    return tuple(max(sizes) for sizes in held)


def _chunks(size: int, ranks: int) -> set[int]:
    """Sizes that ``torch.chunk`` leaves the ranks with; that some are 0 makes no shard larger."""
    full = -(-size // ranks)
    return {full, size % full} if full else {0}


def _strided(size: int, ranks: int, factor: int) -> set[int]:
    """Likewise where the dim is cut into `factor` pieces first, and each of them over the ranks."""
    outer = -(-size // factor)
    if outer == 0:
        return {0}
    whole, rest = divmod(size, outer)
    return {whole * _share(outer, ranks, r) + _share(rest, ranks, r) for r in range(ranks)}


def _share(size: int, ranks: int, rank: int) -> int:
    """What ``torch.chunk`` gives one rank."""
    chunk = -(-size // ranks)
    return max(0, min(size, chunk * (rank + 1)) - chunk * rank)
