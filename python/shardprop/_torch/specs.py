"""DTensorSpecs: made fast, and what torch reads from them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, overload

import torch
from torch.distributed.tensor import _utils
from torch.distributed.tensor._ops import utils as _ops_utils

from .. import _core
from .placements import are_plain, has_strided, is_shard
from .types import (
    DeviceMesh,
    DTensorSpec,
    Placement,
    Shard,
    ShardOrderEntry,
    StridedShard,
    TensorMeta,
)


@overload
def meta_of(value: torch.Tensor) -> TensorMeta: ...
@overload
def meta_of(value: object) -> TensorMeta | None: ...
def meta_of(value: object) -> TensorMeta | None:
    """Shape, stride and dtype of a tensor; None of anything else."""
    if not isinstance(value, torch.Tensor):
        return None
    return TensorMeta(value.shape, value.stride(), value.dtype)


def contiguous_meta(shape: Sequence[int], dtype: torch.dtype) -> TensorMeta:
    """Metadata of a contiguous tensor."""
    return meta_of(torch.empty(tuple(shape), dtype=dtype, device="meta"))


def is_shardable(shape: Sequence[Any], spec: Any, allow_unbacked: bool | None) -> bool:
    """torch's test of shardability, with its guards; of `spec` it reads placements and mesh."""
    return _ops_utils.is_tensor_shardable(shape, spec, allow_unbacked)


def local_shape(spec: DTensorSpec) -> tuple[int, ...]:
    """What this rank holds of a tensor; torch looks at no shard order here."""
    shape, _ = _utils.compute_local_shape_and_global_offset(
        spec.shape, spec.mesh, spec.placements, skip_offset=True
    )
    return tuple(shape)


def local_matrix(spec: DTensorSpec) -> tuple[Sequence[int], Sequence[int], int]:
    """Shape and stride of this rank's shard, and the bytes of an element."""
    if spec.tensor_meta is None:
        raise _core.Unsupported("operand without tensor metadata")
    shape, _ = _utils.compute_local_shape_and_global_offset(
        spec.tensor_meta.shape, spec.mesh, spec.placements, skip_offset=True
    )
    stride = _utils.compute_local_stride(spec.tensor_meta.stride, shape)
    return shape, stride, spec.tensor_meta.dtype.itemsize


def decoded_layout(
    spec: DTensorSpec,
) -> tuple[tuple[Placement, ...], tuple[tuple[int, tuple[int, ...]], ...]]:
    """The placements and the shard order of a spec, strided shards read as the spec says.

    Where they stand for a shard order they come back as plain shards in that order; if there is no
    such order, they stay, and cut from left to right.
    """
    if not spec.use_strided_shard_as_shard_order:
        return spec.placements, _plain_order(spec.shard_order)
    order = order_of_strided(spec.placements, spec.mesh.shape)
    if order is None:
        return spec.placements, ()
    plain = (Shard(p.dim) if isinstance(p, StridedShard) else p for p in spec.placements)
    return tuple(plain), order


class _MeshSizes(tuple[int, ...]):
    """As much of a mesh as torch asks for the order."""

    def size(self, mesh_dim: int) -> int:
        return self[mesh_dim]


def order_of_strided(
    placements: Sequence[Placement], mesh_sizes: Sequence[int]
) -> tuple[tuple[int, tuple[int, ...]], ...] | None:
    """The shard order that placements with strided shards stand for: per tensor dim the mesh dims
    that cut it, the first one first; None where they stand for none."""
    convert = DTensorSpec._maybe_convert_StridedShard_to_shard_order
    order = convert(tuple(placements), _MeshSizes(mesh_sizes))  # type: ignore[arg-type]
    return None if order is None else _plain_order(order)


def _plain_order(
    order: Sequence[ShardOrderEntry] | None,
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    return tuple((entry.tensor_dim, tuple(entry.mesh_dims)) for entry in order or ())


def default_shard_order(placements: tuple[Placement, ...]) -> tuple[ShardOrderEntry, ...]:
    """Per tensor dim that is sharded the mesh dims that cut it, from left to right."""
    # Every spec that is made asks.
    return (_order_of_plain if are_plain(placements) else _order_of)(placements)


def _order_of(placements: tuple[Placement, ...]) -> tuple[ShardOrderEntry, ...]:
    cuts: dict[int, list[int]] = {}
    for mesh_dim, placement in enumerate(placements):
        if is_shard(placement):
            cuts.setdefault(placement.dim, []).append(mesh_dim)  # type: ignore[attr-defined]
    return tuple(ShardOrderEntry(dim, tuple(cuts[dim])) for dim in sorted(cuts))


# A program has few placements.
_order_of_plain = functools.lru_cache(1_024)(_order_of)


def has_default_order(spec: DTensorSpec) -> bool:
    """Do the placements alone say where the elements lie: is a dim that several mesh dims cut, cut
    by the first of them first?"""
    order = spec.shard_order
    return order is None or order == default_shard_order(spec.placements)


# Not by way of the spec's __dict__: who has asked for that makes all later reads of attributes
# slower, torch's own at each call, too. And past torch's own __setattr__, which forgets the hash.
set_attribute = object.__setattr__


def make_spec(
    mesh: DeviceMesh,
    placements: tuple[Placement, ...],
    meta: TensorMeta | None,
    strided_is_order: bool = True,
) -> DTensorSpec:
    """``DTensorSpec(mesh, placements, meta)`` with the default shard order.

    torch's constructor takes 14 us, most of it checks of the shard order that it has just computed.
    Here the order is computed the same way and put straight into the object.

    Where there are strided shards, `strided_is_order` says whether they stand for the shard order;
    torch then keeps none beside them.
    """
    is_order = strided_is_order and has_strided(placements)
    spec = object.__new__(DTensorSpec)
    set_attribute(spec, "mesh", mesh)
    set_attribute(spec, "placements", placements)
    set_attribute(spec, "tensor_meta", meta)
    set_attribute(spec, "use_strided_shard_as_shard_order", is_order)
    set_attribute(spec, "shard_order", None if is_order else default_shard_order(placements))
    set_attribute(spec, "_hash", None)
    return spec


def with_shard_order(spec: DTensorSpec, order: tuple[ShardOrderEntry, ...]) -> DTensorSpec:
    """The spec of the same placements, whose mesh dims cut in this order."""
    made = make_spec(spec.mesh, spec.placements, spec.tensor_meta, strided_is_order=False)
    set_attribute(made, "shard_order", order)
    return made
