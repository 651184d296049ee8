"""The calls that are measured: those which torch's redistribution makes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ... import _torch
from ..._torch import DeviceMesh

__all__ = [
    "PRODUCT_DTYPES",
    "MeasuredGroup",
    "Workload",
    "copy_workload",
    "product_workload",
    "workload",
]

_ITEM_BYTES = 4  # float32

# Of the matrices whose products are measured, where the device has them; float32 it has to have.
PRODUCT_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
# Their rows and columns: enough to fill the device. Of types that are slow there fewer would do.
_CPU_ROWS, _ROWS, _ROWS_OF_DOUBLES = 256, 4096, 1024


@dataclass(frozen=True)
class MeasuredGroup:
    """A group of ranks that collectives run over.

    Attributes:
        mesh_dims: Of the mesh that is calibrated, ascending.
        mesh: Holds the process group: that mesh, or the flattened one.
        mesh_dim: Which dim of it.
    """

    mesh_dims: tuple[int, ...]
    mesh: DeviceMesh
    mesh_dim: int

    @property
    def ranks(self) -> int:
        """How many take part."""
        return self.mesh.size(self.mesh_dim)

    @property
    def rank(self) -> int:
        """This rank's place in the group."""
        return self.mesh.get_local_rank(self.mesh_dim)


@dataclass(frozen=True)
class Workload:
    """One call, and what the cost model counts for it.

    Attributes:
        run: The call; it returns when the result may be used.
        wire_bytes: That a rank sends.
        kernels: Local kernels that come with the call.
        traffic: Bytes that they read and write.
        flops: Operations of a product of matrices.
    """

    run: Callable[[], object]
    wire_bytes: int
    kernels: int = 0
    traffic: int = 0
    flops: int = 0


def copy_workload(device: str, size: int) -> Workload:
    """A local copy of `size` bytes."""
    source = _ones(device, _items(size, 1))
    return Workload(source.clone, 0, kernels=1, traffic=2 * source.nbytes)


def product_workload(device: str, dtype: torch.dtype) -> Workload:
    """A product of two square matrices of random numbers: a GPU is faster with equal ones.

    Raises:
        RuntimeError: the device has no such type, or no product of it.
    """
    rows = _ROWS_OF_DOUBLES if dtype is torch.float64 else _ROWS
    rows = _CPU_ROWS if device == "cpu" else rows
    matrix = torch.randn(rows, rows, device=device).to(dtype)
    torch.mm(matrix[:1], matrix)
    return Workload(lambda: matrix @ matrix, 0, kernels=1, flops=2 * rows**3)


def workload(collective: str, group: MeasuredGroup, size: int) -> Workload:
    """A collective on `size` bytes in each rank; bytes are counted as docs/cost-models.md says."""
    return _WORKLOADS[collective](group, size)


def _items(size: int, pieces: int) -> int:
    """How many items make `size` bytes, rounded up to `pieces` pieces of one size."""
    return max(1, -(-size // (_ITEM_BYTES * pieces))) * pieces


def _local(group: MeasuredGroup, size: int) -> Tensor:
    return _ones(group.mesh.device_type, _items(size, group.ranks))


# Held by the calls while there are any: all of one size read the same.
_held: weakref.WeakValueDictionary[tuple[str, int], Tensor] = weakref.WeakValueDictionary()


def _ones(device: str, items: int) -> Tensor:
    found = _held.get((device, items))
    if found is None:
        found = _held[device, items] = torch.ones(items, device=device)
    return found


def _all_gather(group: MeasuredGroup, size: int) -> Workload:
    local, where = _local(group, size), (group.mesh, group.mesh_dim)
    return Workload(
        lambda: _torch.wait_tensor(_torch.all_gather_single(local, 0, where)),
        (group.ranks - 1) * local.nbytes,
    )


def _reduce_scatter(group: MeasuredGroup, size: int) -> Workload:
    local, where = _local(group, size), (group.mesh, group.mesh_dim)
    return Workload(
        lambda: _torch.wait_tensor(_torch.reduce_scatter_single(local, "sum", 0, where)),
        (group.ranks - 1) * local.nbytes // group.ranks,
    )


def _all_reduce(group: MeasuredGroup, size: int) -> Workload:
    local, where = _local(group, size), (group.mesh, group.mesh_dim)
    return Workload(
        lambda: _torch.wait_tensor(_torch.all_reduce(local, "sum", where)),
        2 * (group.ranks - 1) * local.nbytes // group.ranks,
        kernels=1,  # the copy that the functional form makes
        traffic=2 * local.nbytes,
    )


def _all_to_all(group: MeasuredGroup, size: int) -> Workload:
    # As Shard(1) -> Shard(0): the ranks hold columns and want rows.
    ranks = group.ranks
    local = _local(group, size).view(ranks, -1)
    sent = (ranks - 1) * local.nbytes
    return Workload(
        lambda: _torch.wait_tensor(
            _torch.shard_dim_alltoall(local, 1, 0, group.mesh, group.mesh_dim)
        ),
        sent if group.mesh.device_type == "cpu" else sent // ranks,
        kernels=2,
        traffic=4 * local.nbytes,
    )


def _permute(group: MeasuredGroup, size: int) -> Workload:
    # Each rank sends all it has to the next one.
    ranks, rank = group.ranks, group.rank
    local, where = _local(group, size), (group.mesh, group.mesh_dim)
    sends, receives = [0] * ranks, [0] * ranks
    sends[(rank + 1) % ranks] = receives[(rank - 1) % ranks] = local.numel()
    return Workload(
        lambda: _torch.wait_tensor(_torch.all_to_all_single(local, receives, sends, where)),
        local.nbytes,
    )


_WORKLOADS: dict[str, Callable[[MeasuredGroup, int], Workload]] = {
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_reduce": _all_reduce,
    "all_to_all": _all_to_all,
    "permute": _permute,
}
