"""Specs as torch makes them for the operands and outputs of a decision.

torch's constructor takes 14 us, most of it checks of the shard order that it has just computed.
Here the order is computed the same way and put straight into the object.
"""

from __future__ import annotations

from collections.abc import Sequence

from ._torch import DeviceMesh, DTensorSpec, Placement, ShardOrderEntry, TensorMeta
from .kinds import has_strided, is_shard

__all__ = ["default_shard_order", "make_spec"]


def default_shard_order(placements: Sequence[Placement]) -> tuple[ShardOrderEntry, ...]:
    """Per tensor dim that is sharded the mesh dims that cut it, from left to right."""
    cuts: dict[int, list[int]] = {}
    for mesh_dim, placement in enumerate(placements):
        if is_shard(placement):
            cuts.setdefault(placement.dim, []).append(mesh_dim)  # type: ignore[attr-defined]
    if len(cuts) == 1:
        ((tensor_dim, mesh_dims),) = cuts.items()
        return (ShardOrderEntry(tensor_dim, tuple(mesh_dims)),)
    return tuple(ShardOrderEntry(dim, tuple(cuts[dim])) for dim in sorted(cuts))


def make_spec(
    mesh: DeviceMesh,
    placements: tuple[Placement, ...],
    meta: TensorMeta | None,
    strided_is_order: bool = True,
) -> DTensorSpec:
    """``DTensorSpec(mesh, placements, meta)`` with the default shard order.

    Where there are strided shards, `strided_is_order` says whether they stand for the shard order;
    torch then keeps none beside them.
    """
    is_order = strided_is_order and has_strided(placements)
    spec = object.__new__(DTensorSpec)
    fields = spec.__dict__
    fields["mesh"] = mesh
    fields["placements"] = placements
    fields["tensor_meta"] = meta
    fields["use_strided_shard_as_shard_order"] = is_order
    fields["shard_order"] = None if is_order else default_shard_order(placements)
    fields["_hash"] = None
    return spec
