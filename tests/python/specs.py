"""Short ways to write specs in tests."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry, TensorMeta
from torch.distributed.tensor.placement_types import _StridedShard

R = Replicate()
P = Partial()
S = Shard


def SS(dim: int, split_factor: int) -> _StridedShard:
    return _StridedShard(dim, split_factor=split_factor)


def meta_of(shape: Sequence[int], dtype: torch.dtype = torch.float32) -> TensorMeta:
    tensor = torch.empty(tuple(shape), dtype=dtype, device="meta")
    return TensorMeta(tensor.shape, tensor.stride(), tensor.dtype)


def spec_of(
    mesh: DeviceMesh,
    shape: Sequence[int],
    placements: Sequence[Placement],
    *,
    dtype: torch.dtype = torch.float32,
    strided_is_order: bool | None = None,
    order: Sequence[tuple[int, tuple[int, ...]]] | None = None,
) -> DTensorSpec:
    return DTensorSpec(
        mesh,
        tuple(placements),
        tensor_meta=meta_of(shape, dtype),
        # torch's default is None, which its annotation leaves out.
        shard_order=None if order is None else tuple(ShardOrderEntry(*entry) for entry in order),  # type: ignore[arg-type]
        use_strided_shard_as_shard_order=strided_is_order,
    )
