"""The placements of a view op's input as small numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...._torch import Placement, Shard, StridedShard, split_factors_match
from .declined import Declined
from .dim_map import Group, Shape

__all__ = ["NOT_SHARDED", "Shards"]

NOT_SHARDED = -1


class Shards:
    """What is sharded on which mesh dim.

    Attributes:
        shape: The global shape of the tensor.
        mesh_sizes: The sizes of the mesh dims.
        dim_at: Per mesh dim the tensor dim sharded there, or `NOT_SHARDED`.
        factor_at: Per mesh dim the split factor; None where the shard is plain.
    """

    def __init__(
        self, placements: Sequence[Placement], shape: Shape, mesh_sizes: Sequence[int]
    ) -> None:
        self.shape = shape
        self.mesh_sizes = mesh_sizes
        self.dim_at: list[int] = []
        self.factor_at: list[Any] = []
        for placement in placements:
            dim, factor = NOT_SHARDED, None
            if isinstance(placement, Shard | StridedShard):
                dim = placement.dim
                if not 0 <= dim < len(shape):
                    raise Declined("a shard of a dim that is not there")
                if isinstance(placement, StridedShard):
                    factor = placement.split_factor
            self.dim_at.append(dim)
            self.factor_at.append(factor)

    def on(self, dim: int) -> list[int]:
        """Mesh dims that shard a dim."""
        return [mesh_dim for mesh_dim, sharded in enumerate(self.dim_at) if sharded == dim]

    def plain_on(self, dim: int) -> list[int]:
        """Mesh dims with a plain shard of a dim."""
        return [mesh_dim for mesh_dim in self.on(dim) if self.factor_at[mesh_dim] is None]

    def is_of_piece(self, mesh_dim: int, group: Group, index: int) -> bool:
        """Is the strided shard of a dim a plain shard of one of its pieces?

        It is if it has as many groups as the pieces before make, less those that earlier mesh dims
        have taken by sharding the same dim.
        """
        before = math.prod(group.pieces[:index])
        for earlier in range(mesh_dim):
            if self.dim_at[earlier] == self.dim_at[mesh_dim]:
                if before % self.mesh_sizes[earlier] != 0:
                    return False
                before //= self.mesh_sizes[earlier]
        return split_factors_match(before, self.factor_at[mesh_dim])
