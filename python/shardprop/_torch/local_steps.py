"""The steps of a plan, each made once into a function of what this rank holds.

A function does what torch's `redistribute_local_tensor` does in its place, to the same bits: the
same collective on the same group, waited for, without torch's wrappers around a result that is
waited for at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._utils import _chunk_or_narrow_cat, _maybe_view_chunk_cat
from torch.distributed.tensor import _redistribute

from .collectives import all_to_all, chunk, reduce_scatter, waited
from .mesh import coordinate_on
from .types import DeviceMesh, DTensorSpec, Partial, Placement, Replicate, Shard

__all__ = ["LocalStep", "local_step", "local_steps"]

LocalStep = Callable[[torch.Tensor], torch.Tensor]
# Of the placements before and after, the mesh, the mesh dim, and the shape that this mesh dim cuts.
_Make = Callable[[Any, Any, DeviceMesh, int, list[int]], LocalStep]

_functional = torch.ops._c10d_functional
_all_gather = _functional.all_gather_into_tensor.default
_all_reduce = _functional.all_reduce.default
_reduce_scatter = _functional.reduce_scatter_tensor.default
_wait = _functional.wait_tensor.default
# torch has layers of Python above these ops for gradients, which are not those of local tensors.
_below_autograd = torch._C._AutoDispatchBelowAutograd


def local_steps(
    infos: list[Any], source: DTensorSpec, target: DTensorSpec
) -> tuple[LocalStep, ...] | None:
    """The steps of a plan, merged on flattened meshes as torch merges them; None where one of them
    is of a kind that torch's own code is to carry out."""
    merged = _redistribute._optimize_transform_infos(
        infos, source.mesh, source.placements, target.placements
    )
    steps = []
    for info in merged:
        mesh = getattr(info, "mesh", source.mesh)
        before, after = info.src_dst_placements
        if before == after or mesh.size(info.mesh_dim) == 1:
            continue
        shape = [int(n) for n in info.logical_shape]
        step = local_step(before, after, mesh, info.mesh_dim, shape)
        if step is None:
            return None
        scale = getattr(info, "avg_scale", None)
        steps.append(step if scale is None else _divided(step, scale))
    return tuple(steps)


def local_step(
    before: Placement, after: Placement, mesh: DeviceMesh, mesh_dim: int, shape: list[int]
) -> LocalStep | None:
    """A step on one mesh dim, which cuts a tensor of `shape`; None where it is of another kind."""
    make = _KINDS.get((type(before), type(after)))
    return None if make is None else make(before, after, mesh, mesh_dim, shape)


def _group_of(mesh: DeviceMesh, mesh_dim: int) -> str:
    name: str = mesh._dim_group_names[mesh_dim]
    return name


def _gathered(
    before: Shard, _: Placement, mesh: DeviceMesh, mesh_dim: int, shape: list[int]
) -> LocalStep:
    dim, ranks, group = before.dim, mesh.size(mesh_dim), _group_of(mesh, mesh_dim)
    whole = shape[dim]

    def of_even(local: torch.Tensor) -> torch.Tensor:
        with _below_autograd():
            made: torch.Tensor = _wait(_all_gather(local.contiguous(), ranks, group))
            if dim != 0:
                made = _maybe_view_chunk_cat(made, ranks, dim).contiguous()
            # A program may have given a rank a piece of another size than the layout says.
            return made if made.size(dim) == whole else _unpadded(made)

    def of_uneven(local: torch.Tensor) -> torch.Tensor:
        with _below_autograd():
            padded = before._maybe_pad_tensor(local, whole, ranks)
            made = _wait(_all_gather(padded, ranks, group))
            return _unpadded(_maybe_view_chunk_cat(made, ranks, dim) if dim else made)

    def _unpadded(made: torch.Tensor) -> torch.Tensor:
        unpadded: torch.Tensor = before._maybe_unpad_tensor(made, whole, ranks)
        return unpadded

    return of_uneven if whole % ranks else of_even


def _reduced(
    before: Partial, _: Placement, mesh: DeviceMesh, mesh_dim: int, __: list[int]
) -> LocalStep:
    op, group = before.reduce_op.lower(), _group_of(mesh, mesh_dim)

    def step(local: torch.Tensor) -> torch.Tensor:
        with _below_autograd():
            return _wait(_all_reduce(local, op, group))  # type: ignore[no-any-return]

    return step


def _scattered(
    before: Partial, after: Shard, mesh: DeviceMesh, mesh_dim: int, _: list[int]
) -> LocalStep:
    op, group = before.reduce_op.lower(), _group_of(mesh, mesh_dim)
    dim, ranks = after.dim, mesh.size(mesh_dim)

    def step(local: torch.Tensor) -> torch.Tensor:
        if local.size(dim) % ranks:
            return waited(reduce_scatter(before, after, local, mesh, mesh_dim))
        with _below_autograd():
            rows = local.contiguous()
            if dim != 0:
                rows = _chunk_or_narrow_cat(rows, ranks, narrow_dim=dim, cat_dim=0)
            return _wait(_reduce_scatter(rows, op, ranks, group))  # type: ignore[no-any-return]

    return step


def _cut(_: Replicate, after: Shard, mesh: DeviceMesh, mesh_dim: int, __: list[int]) -> LocalStep:
    dim, ranks, place = after.dim, mesh.size(mesh_dim), coordinate_on(mesh, mesh_dim)

    def step(local: torch.Tensor) -> torch.Tensor:
        size, left = divmod(local.size(dim), ranks)
        if left:
            return chunk(after, local, mesh, mesh_dim)
        return local.narrow(dim, place * size, size).clone()

    return step


def _made_pending(
    _: Replicate, after: Partial, mesh: DeviceMesh, mesh_dim: int, __: list[int]
) -> LocalStep:
    return lambda local: after._partition_value(local, mesh, mesh_dim)


def _moved(
    before: Shard, after: Shard, mesh: DeviceMesh, mesh_dim: int, shape: list[int]
) -> LocalStep:
    """From one tensor dim to another: gathered and cut on a CPU, as torch does."""
    source, target = before.dim, after.dim
    ranks, group = mesh.size(mesh_dim), _group_of(mesh, mesh_dim)
    place = coordinate_on(mesh, mesh_dim)

    def by_torch(local: torch.Tensor) -> torch.Tensor:
        return waited(all_to_all(before, after, local, mesh, mesh_dim, shape))

    def step(local: torch.Tensor) -> torch.Tensor:
        with _below_autograd():
            made: torch.Tensor = _wait(_all_gather(local.contiguous(), ranks, group))
            if source != 0:
                made = _maybe_view_chunk_cat(made, ranks, source)
            size = made.size(target) // ranks
            return made.narrow(target, place * size, size).contiguous()

    is_even = shape[source] % ranks == 0 and shape[target] % ranks == 0
    return step if is_even and mesh.device_type == "cpu" else by_torch


def _divided(step: LocalStep, scale: int) -> LocalStep:
    """Merged sums and averages are summed, then divided."""
    return lambda local: step(local) / scale


_KINDS: Mapping[tuple[type, type], _Make] = {
    (Shard, Replicate): _gathered,
    (Partial, Replicate): _reduced,
    (Partial, Shard): _scattered,
    (Replicate, Shard): _cut,
    (Shard, Shard): _moved,
    (Replicate, Partial): _made_pending,
}
