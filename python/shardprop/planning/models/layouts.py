"""The layouts that tensors may enter and leave a program with."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from ..._torch import DeviceMesh, Replicate, Shard
from ...model.placements import Placements

__all__ = ["plain_layouts"]


def plain_layouts(shape: Sequence[int], mesh: DeviceMesh) -> list[Placements]:
    """All combinations of `Replicate` and `Shard` over the mesh dims, in the order of the product,
    that leave every rank at least one row of each tensor dim that they cut.

    Args:
        shape: Of the whole tensor.
        mesh: The mesh.
    """
    each = [Replicate(), *(Shard(dim) for dim in range(len(shape)))]
    combined = itertools.product(each, repeat=mesh.ndim)
    return [placements for placements in combined if _fills(placements, shape, mesh)]


def _fills(placements: Placements, shape: Sequence[int], mesh: DeviceMesh) -> bool:
    """Does the last of the ranks that share a tensor dim get a row of it?"""
    smallest = [*shape]
    for mesh_dim, placement in enumerate(placements):
        ranks = mesh.size(mesh_dim)
        if isinstance(placement, Shard) and ranks > 1:
            size = smallest[placement.dim]
            smallest[placement.dim] = size - (ranks - 1) * math.ceil(size / ranks)
            if smallest[placement.dim] <= 0:
                return False
    return True
