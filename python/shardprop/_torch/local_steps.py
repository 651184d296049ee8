"""The steps of a plan, each made once into a function of what this rank holds.

A function does what torch's `redistribute_local_tensor` does in its place, to the same bits: the
same collective on the same group, without torch's wrappers around a result that is waited for at
once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch._utils import _chunk_or_narrow_cat, _maybe_view_chunk_cat
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import _redistribute

from .collectives import all_to_all, below_autograd, chunk, reduce_scatter, waited
from .mesh import coordinate_on
from .types import DeviceMesh, DTensorSpec, NormPartial, Partial, Placement, Replicate, Shard

__all__ = ["LocalStep", "local_step", "local_steps"]

_OfLocal = Callable[[torch.Tensor], torch.Tensor]


class LocalStep(NamedTuple):
    """A step as functions of what this rank holds.

    Attributes:
        run: Its result has come.
        begin: Its result may be an ``AsyncCollectiveTensor``, which waits at its first use, where
            torch's is with ``async_op``.
    """

    run: _OfLocal
    begin: _OfLocal

    @classmethod
    def at_once(cls, step: _OfLocal) -> LocalStep:
        """A step whose result is there at once, with ``async_op`` too."""
        return cls(step, step)


# Of the placements before and after, the mesh, the mesh dim, and the shape that this mesh dim cuts.
_Make = Callable[[Any, Any, DeviceMesh, int, list[int]], LocalStep]

_functional = torch.ops._c10d_functional
_all_gather = _functional.all_gather_into_tensor.default
_all_reduce = _functional.all_reduce.default
_reduce_scatter = _functional.reduce_scatter_tensor.default
_wait = _functional.wait_tensor.default


class _Result(NamedTuple):
    """What becomes of a collective under way.

    Attributes:
        of_op: Of what its op returns.
        of_function: Of what torch's function around it returns.
        is_awaited: Has it come?
    """

    of_op: _OfLocal
    of_function: _OfLocal
    is_awaited: bool


_NOW = _Result(_wait, waited, True)
_LATER = _Result(AsyncCollectiveTensor, lambda made: made, False)


def _both(step: Callable[[_Result], _OfLocal]) -> LocalStep:
    return LocalStep(step(_NOW), step(_LATER))


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

    def step(result: _Result) -> _OfLocal:
        # Pieces that lie one after another already are joined before they have come.
        lie_so = not result.is_awaited and math.prod(shape[:dim]) == 1

        def of_even(local: torch.Tensor) -> torch.Tensor:
            with below_autograd():
                made = joined(_all_gather(local.contiguous(), ranks, group), local)
            # A program may have given a rank a piece of another size than the layout says.
            return made if made.size(dim) == whole else unpadded(made)

        def of_uneven(local: torch.Tensor) -> torch.Tensor:
            with below_autograd():
                padded = before._maybe_pad_tensor(local, whole, ranks)
                made = joined(_all_gather(padded, ranks, group), padded)
            return unpadded(made)  # a view, which does not wait if autograd sees it

        def joined(made: torch.Tensor, piece: torch.Tensor) -> torch.Tensor:
            if dim == 0:
                return result.of_op(made)
            if lie_so and piece.shape[:dim].numel() == 1:
                return result.of_op(_maybe_view_chunk_cat(made, ranks, dim))
            return _maybe_view_chunk_cat(_wait(made), ranks, dim).contiguous()

        return of_uneven if whole % ranks else of_even

    def unpadded(made: torch.Tensor) -> torch.Tensor:
        cut: torch.Tensor = before._maybe_unpad_tensor(made, whole, ranks)
        return cut

    return _both(step)


def _reduced(
    before: Partial, _: Placement, mesh: DeviceMesh, mesh_dim: int, __: list[int]
) -> LocalStep:
    op, group = before.reduce_op.lower(), _group_of(mesh, mesh_dim)

    def step(result: _Result) -> _OfLocal:
        of_op = result.of_op

        def reduced(local: torch.Tensor) -> torch.Tensor:
            with below_autograd():
                return of_op(_all_reduce(local, op, group))

        return reduced

    return _both(step)


def _norms_reduced(
    before: Any, after: Placement, mesh: DeviceMesh, mesh_dim: int, shape: list[int]
) -> LocalStep:
    """The norm of all ranks' norms: with ``async_op`` too it is there at once, as torch has it."""
    summed = _reduced(before, after, mesh, mesh_dim, shape).run
    powers, root = before._pre_reduce_transform, before._post_reduce_transform
    return LocalStep.at_once(lambda local: root(summed(powers(local))))


def _scattered(
    before: Partial, after: Shard, mesh: DeviceMesh, mesh_dim: int, _: list[int]
) -> LocalStep:
    op, group = before.reduce_op.lower(), _group_of(mesh, mesh_dim)
    dim, ranks = after.dim, mesh.size(mesh_dim)

    def step(result: _Result) -> _OfLocal:
        def scattered(local: torch.Tensor) -> torch.Tensor:
            if local.size(dim) % ranks:
                return result.of_function(reduce_scatter(before, after, local, mesh, mesh_dim))
            with below_autograd():
                rows = local.contiguous()
                if dim != 0:
                    rows = _chunk_or_narrow_cat(rows, ranks, narrow_dim=dim, cat_dim=0)
                return result.of_op(_reduce_scatter(rows, op, ranks, group))

        return scattered

    return _both(step)


def _cut(_: Replicate, after: Shard, mesh: DeviceMesh, mesh_dim: int, __: list[int]) -> LocalStep:
    dim, ranks, place = after.dim, mesh.size(mesh_dim), coordinate_on(mesh, mesh_dim)

    def step(local: torch.Tensor) -> torch.Tensor:
        size, left = divmod(local.size(dim), ranks)
        if left:
            return chunk(after, local, mesh, mesh_dim)
        return local.narrow(dim, place * size, size).clone()

    return LocalStep.at_once(step)


def _made_pending(
    _: Replicate, after: Partial, mesh: DeviceMesh, mesh_dim: int, __: list[int]
) -> LocalStep:
    return LocalStep.at_once(lambda local: after._partition_value(local, mesh, mesh_dim))


def _moved(
    before: Shard, after: Shard, mesh: DeviceMesh, mesh_dim: int, shape: list[int]
) -> LocalStep:
    """From one tensor dim to another: gathered and cut on a CPU, as torch does."""
    source, target = before.dim, after.dim
    ranks, group = mesh.size(mesh_dim), _group_of(mesh, mesh_dim)
    place = coordinate_on(mesh, mesh_dim)

    def by_torch(result: _Result) -> _OfLocal:
        return lambda local: result.of_function(
            all_to_all(before, after, local, mesh, mesh_dim, shape)
        )

    def step(local: torch.Tensor) -> torch.Tensor:
        with below_autograd():
            made: torch.Tensor = _wait(_all_gather(local.contiguous(), ranks, group))
            if source != 0:
                made = _maybe_view_chunk_cat(made, ranks, source)
            size = made.size(target) // ranks
            return made.narrow(target, place * size, size).contiguous()

    is_even = shape[source] % ranks == 0 and shape[target] % ranks == 0
    return LocalStep.at_once(step) if is_even and mesh.device_type == "cpu" else _both(by_torch)


def _divided(step: LocalStep, scale: int) -> LocalStep:
    """Merged sums and averages are summed, then divided."""
    return LocalStep.at_once(lambda local: step.run(local) / scale)


_KINDS: Mapping[tuple[type, type], _Make] = {
    (Shard, Replicate): _gathered,
    (Partial, Replicate): _reduced,
    (NormPartial, Replicate): _norms_reduced,
    (Partial, Shard): _scattered,
    (Replicate, Shard): _cut,
    (Shard, Shard): _moved,
    (Replicate, Partial): _made_pending,
}
