"""The collectives of a redistribution's steps, as torch's ``redistribute_local_tensor`` calls them.

In the steps, `mesh_dim` is a dim of a mesh or of a flattened one, and `shape` is that of the
tensor which the step cuts, on this rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.distributed import _functional_collectives as _collectives
from torch.distributed.tensor import _collective_utils
from torch.distributed.tensor import placement_types as _placement_types

from .mesh import coordinate_on
from .types import DeviceMesh, Placement, Shard, StridedShard

wait_tensor: Callable[[torch.Tensor], torch.Tensor] = _collectives.wait_tensor
all_gather_single = _collectives.all_gather_single
reduce_scatter_single = _collectives.reduce_scatter_single
all_reduce = _collectives.all_reduce
all_to_all_single = _collectives.all_to_all_single
# As graphs call them.
_functional = torch.ops._c10d_functional
ALL_GATHER_OP = _functional.all_gather_into_tensor.default
ALL_REDUCE_OP = _functional.all_reduce.default
REDUCE_SCATTER_OP = _functional.reduce_scatter_tensor.default
WAIT_OP = _functional.wait_tensor.default
# torch has layers of Python above its collectives, for gradients; local tensors have none there.
below_autograd = torch._C._AutoDispatchBelowAutograd
# In which nobody counts what is written either.
below_versions = torch._C._AutoDispatchBelowADInplaceOrView
shard_dim_alltoall: Callable[..., torch.Tensor] = _collective_utils.shard_dim_alltoall


def is_collective(op: object) -> bool:
    """Is it one of torch's functional collectives, or the wait for the result of one?"""
    return getattr(op, "namespace", None) in ("_c10d_functional", "_dtensor")


def begins_collective(op: object) -> bool:
    """Is it a collective, and no wait?"""
    return is_collective(op) and not waits_for_collective(op)


def waits_for_collective(op: object) -> bool:
    """Is it the wait for a result?"""
    return op is WAIT_OP


def is_waited_for(call: fx.Node) -> bool:
    """Is it a collective that goes on until another call waits for it?"""
    return begins_collective(call.target) and any(
        waits_for_collective(user.target) for user in call.users
    )


def gather(
    src: Placement, local: torch.Tensor, mesh: DeviceMesh, mesh_dim: int, shape: Sequence[int]
) -> torch.Tensor:
    """A shard, plain or strided, to Replicate."""
    if isinstance(src, StridedShard):
        src = _WithoutOffsets(src.dim, split_factor=src.split_factor)
    return src._to_replicate_tensor(local, mesh, mesh_dim, shape)  # type: ignore[attr-defined,no-any-return]


class _WithoutOffsets(StridedShard):
    """Gathers as a strided shard does. torch reads the offsets of a shard, which it does not look
    at, out of a tensor, and so cannot gather while a graph is made, where there are no values."""

    def local_shard_size_and_offset(  # type: ignore[override]
        self, size: int, chunks: int, rank: int, offset_mode: object = None
    ) -> tuple[int, None]:
        none = _placement_types._StridedShardOffsetMode.NONE
        held, _ = super().local_shard_size_and_offset(size, chunks, rank, none)
        return held, None


def reduce(src: Placement, local: torch.Tensor, mesh: DeviceMesh, mesh_dim: int) -> torch.Tensor:
    """A Partial to Replicate."""
    return src._reduce_value(local, mesh, mesh_dim)  # type: ignore[attr-defined,no-any-return]


def reduce_scatter(
    src: Placement, dst: Placement, local: torch.Tensor, mesh: DeviceMesh, mesh_dim: int
) -> torch.Tensor:
    """A Partial to a plain shard."""
    return src._reduce_shard_value(local, mesh, mesh_dim, dst)  # type: ignore[attr-defined,no-any-return]


def all_to_all(
    src: Placement,
    dst: Placement,
    local: torch.Tensor,
    mesh: DeviceMesh,
    mesh_dim: int,
    shape: Sequence[int],
) -> torch.Tensor:
    """A plain shard to one of another tensor dim."""
    return src._to_new_shard_dim(local, mesh, mesh_dim, shape, dst.dim)  # type: ignore[attr-defined,no-any-return]


def chunk(dst: Placement, local: torch.Tensor, mesh: DeviceMesh, mesh_dim: int) -> torch.Tensor:
    """Replicate to a shard, plain or strided."""
    strided = isinstance(dst, StridedShard)
    cut: Any = getattr(dst, "_replicate_to_strided_shard" if strided else "_replicate_to_shard")
    return cut(local, mesh, mesh_dim, coordinate_on(mesh, mesh_dim))  # type: ignore[no-any-return]


def exchange(
    local: torch.Tensor,
    received: Sequence[int],
    sent: Sequence[int],
    mesh: DeviceMesh,
    mesh_dim: int,
) -> torch.Tensor:
    """Elements of a 1-D tensor `sent` to each rank of a mesh dim, and `received` from each."""
    return _collectives.all_to_all_single(local, list(received), list(sent), (mesh, mesh_dim))


def waited(tensor: torch.Tensor) -> torch.Tensor:
    """The result of a collective, when it has come."""
    return tensor.wait() if isinstance(tensor, _collectives.AsyncCollectiveTensor) else tensor


def local_size(src: Placement, size: int, ranks: int, coordinate: int) -> int:
    """What a shard, plain or strided, leaves of `size` to the rank at `coordinate`."""
    if isinstance(src, StridedShard):
        # The offsets would be read from a tensor, which a fake one does not allow.
        return src.local_shard_size_and_offset(size, ranks, coordinate, _NO_OFFSETS)[0]
    return Shard.local_shard_size_and_offset(size, ranks, coordinate)[0]


def local_offset(size: int, ranks: int, coordinate: int) -> int:
    """Where the plain shard of the rank at `coordinate` begins."""
    return Shard.local_shard_size_and_offset(size, ranks, coordinate)[1]


_NO_OFFSETS = _placement_types._StridedShardOffsetMode.NONE
