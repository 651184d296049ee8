"""From a dim map to placements, the input's and the output's."""

from __future__ import annotations

from collections.abc import Sequence

from ...._torch import Placement, Replicate, Shard, StridedShard
from ....model.placements import Placements
from .carry import carry, shard_on
from .declined import Declined
from .dim_map import DimMap, Shape
from .settle import Settled
from .shards import NOT_SHARDED, Shards

__all__ = ["follow"]

_REPLICATE = Replicate()


def follow(
    placements: Placements, dims: DimMap, shape: Shape, mesh_sizes: Sequence[int], strict: bool
) -> tuple[Placements, Placements]:
    """The wanted input placements and the output placements.

    Args:
        placements: The input's, one for each mesh dim.
        dims: How the op makes its output dims.
        shape: The input's global shape.
        mesh_sizes: The sizes of the mesh dims.
        strict: The op may not redistribute its input.

    Raises:
        Declined: torch raises.
    """
    output = None if dims.guards else _if_only_moved(placements, dims)
    if output is not None:
        return placements, output
    shards = Shards(placements, shape, mesh_sizes)
    settled = Settled(shards, dims, strict)
    wanted = list(placements)
    for mesh_dim, stays in enumerate(settled.stays):
        if stays or shards.dim_at[mesh_dim] == NOT_SHARDED:
            continue
        if strict and mesh_dim not in settled.excused:
            raise Declined("a sharded dim that has to be gathered")
        wanted[mesh_dim] = _REPLICATE
        shards.dim_at[mesh_dim] = NOT_SHARDED
    kept = tuple(wanted)
    return kept, carry(kept, shards, dims, settled.outputs_of, strict)


def _if_only_moved(placements: Placements, dims: DimMap) -> Placements | None:
    """The output placements if all shards are plain and on dims that are only moved."""
    output: list[Placement] = []
    for placement in placements:
        if type(placement) is Shard:
            dim = placement.dim
            to = dims.moved.get(dim)
            if to is None:
                return None
            output.append(placement if to == dim else shard_on(to))
        elif isinstance(placement, Shard | StridedShard):
            return None
        else:
            output.append(placement)
    return tuple(output)
