"""A plan of our own carried out, step after step, by torch's own collectives; or made into
functions, which executor.py calls whenever the plan is met again."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from .. import _torch
from .._torch import DeviceMesh, Partial, Placement
from ..errors import ShardpropError
from ..model.plan_steps import Layout, Step
from .permutation import destinations

__all__ = ["compiled", "local_shape", "run"]


def run(
    steps: Sequence[Step],
    local: torch.Tensor,
    mesh: DeviceMesh,
    shape: Sequence[int],
    *,
    async_op: bool = False,
) -> torch.Tensor:
    """Carry out the steps on this rank's tensor; all ranks of the mesh have to.

    Runs in LocalTensorMode too, and while torch traces (but not for any rank at once,
    ``compile_on_one_rank``).

    Args:
        steps: Each starts from the layout that the one before it leaves.
        local: What this rank holds under the layout that the first step starts from.
        mesh: The mesh; for steps on several of its dims it has a flattened mesh of them.
        shape: The shape of the whole tensor.
        async_op: Leave waiting for the collectives to who uses their results.

    Returns:
        What this rank holds under the layout that the last step leaves; `local` if there is none.

    Raises:
        ShardpropError: a step of an unknown kind, or on mesh dims that are not flattened.
        Exception: what torch's collectives raise.
    """
    for step in steps:
        local = _move_of(step)(local, _site(step, mesh, shape))
        if not async_op:
            local = _torch.waited(local)
    return local


def compiled(
    steps: Sequence[Step], mesh: DeviceMesh, shape: Sequence[int]
) -> tuple[_torch.LocalStep, ...]:
    """The steps, each made into a function of what this rank holds, which gives the bits of `run`.

    For plain tensors, where no mode of torch's looks on. Arguments and errors are those of `run`.
    """
    return tuple(_compiled(_site(step, mesh, shape)) for step in steps)


def _compiled(at: _Site) -> _torch.LocalStep:
    kind, move = at.step.kind, _move_of(at.step)
    if kind in _AS_TORCHS:
        src, scale = _merged(at) if kind in _REDUCING else (at.src, 1)
        step = _torch.local_step(src, at.dst, at.mesh, at.mesh_dim, at.logical_shape)
        if step is not None and scale == 1:
            return step
        if step is not None:
            run = step.run
            return _torch.LocalStep.at_once(lambda local: _divided(run(local), scale))
    return _torch.LocalStep(
        run=lambda local: _torch.waited(move(local, at)), begin=lambda local: move(local, at)
    )


@dataclass(frozen=True)
class _Site:
    """Where a step runs.

    Attributes:
        step: The step.
        whole: The mesh of the tensor.
        shape: The shape of the whole tensor.
        mesh: The mesh of the step: `whole`, or the flattened mesh of several of its dims.
        mesh_dim: The dim of `mesh` that the step runs on.
    """

    step: Step
    whole: DeviceMesh
    shape: Sequence[int]
    mesh: DeviceMesh
    mesh_dim: int

    @property
    def src(self) -> Placement:
        """The placement before, on the first mesh dim; reductions may have others on the rest."""
        return self.step.before.placements[self.step.mesh_dims[0]]

    @property
    def dst(self) -> Placement:
        """The placement after, on each of the mesh dims."""
        return self.step.after.placements[self.step.mesh_dims[0]]

    @property
    def size(self) -> int:
        """How many ranks take part."""
        return self.mesh.size(self.mesh_dim)

    @functools.cached_property
    def coordinate(self) -> int:
        """This rank's place among them."""
        return _torch.coordinate_on(self.mesh, self.mesh_dim)

    @functools.cached_property
    def logical_shape(self) -> list[int]:
        """The shape of the tensor that the step's mesh dims cut, on this rank: all other cuts of
        the layout before, in the order in which they are made."""
        return local_shape(self.step.before, self.shape, self.whole, self.step.mesh_dims)


def local_shape(
    layout: Layout, shape: Sequence[int], mesh: DeviceMesh, without: Sequence[int] = ()
) -> list[int]:
    """What this rank holds of a tensor of `shape`, were it not cut on the mesh dims `without`."""
    sizes = list(shape)
    for tensor_dim, mesh_dims in layout.shard_order:
        for mesh_dim in mesh_dims:
            if mesh_dim not in without:
                sizes[tensor_dim] = _torch.local_size(
                    layout.placements[mesh_dim],
                    sizes[tensor_dim],
                    mesh.size(mesh_dim),
                    _torch.coordinate_on(mesh, mesh_dim),
                )
    return sizes


def _site(step: Step, mesh: DeviceMesh, shape: Sequence[int]) -> _Site:
    if len(step.mesh_dims) == 1:
        return _Site(step, mesh, shape, mesh, step.mesh_dims[0])
    flattened = _torch.flattened_mesh(mesh, step.mesh_dims)
    if flattened is None:
        raise ShardpropError(_no_flattened_mesh(step, mesh))
    return _Site(step, mesh, shape, flattened, 0)


def _move_of(step: Step) -> Callable[[torch.Tensor, _Site], torch.Tensor]:
    move = _MOVES.get(step.kind)
    if move is None:
        raise ShardpropError(
            f"Expected a step of a kind in {', '.join(_MOVES)}, got {step.kind!r}."
        )
    return move


def _no_flattened_mesh(step: Step, mesh: DeviceMesh) -> str:
    names = mesh.mesh_dim_names
    way_out = (
        "give names to the dims of the mesh and flatten them"
        if names is None
        else f"call mesh[{', '.join(repr(names[dim]) for dim in step.mesh_dims)}]._flatten()"
    )
    return (
        f"Expected a flattened mesh of dims {step.mesh_dims} for the step {step.kind}, got {mesh} "
        f"without one. Before planning {way_out} on every rank; or plan without it."
    )


def _all_gather(local: torch.Tensor, at: _Site) -> torch.Tensor:
    return _torch.gather(at.src, local, at.mesh, at.mesh_dim, at.logical_shape)


def _all_reduce(local: torch.Tensor, at: _Site) -> torch.Tensor:
    src, scale = _merged(at)
    reduced = _torch.reduce(src, local, at.mesh, at.mesh_dim)
    return _divided(reduced, scale)


def _reduce_scatter(local: torch.Tensor, at: _Site) -> torch.Tensor:
    src, scale = _merged(at)
    reduced = _torch.reduce_scatter(src, at.dst, local, at.mesh, at.mesh_dim)
    return _divided(reduced, scale)


def _divided(summed: torch.Tensor, scale: int) -> torch.Tensor:
    """A sum made an average, of the same dtype: integers as torch averages them on one mesh dim."""
    if scale == 1:
        return summed
    if summed.is_floating_point() or summed.is_complex():
        return summed / scale
    return torch.div(summed, scale, rounding_mode="trunc").to(summed.dtype)


def _merged(at: _Site) -> tuple[Placement, int]:
    """What is pending on the mesh of the step, and what its sum is to be divided by.

    Over several mesh dims torch sums, and divides by the sizes of those that average, even where
    all of them do.
    """
    mesh_dims = at.step.mesh_dims
    if len(mesh_dims) == 1:
        return at.src, 1
    placements = at.step.before.placements
    averaging = [m for m in mesh_dims if placements[m].reduce_op == "avg"]  # type: ignore[attr-defined]
    if not averaging:
        return at.src, 1
    return Partial("sum"), math.prod(at.whole.size(mesh_dim) for mesh_dim in averaging)


def _all_to_all(local: torch.Tensor, at: _Site) -> torch.Tensor:
    return _torch.all_to_all(at.src, at.dst, local, at.mesh, at.mesh_dim, at.logical_shape)


def _chunk(local: torch.Tensor, at: _Site) -> torch.Tensor:
    return _torch.chunk(at.dst, local, at.mesh, at.mesh_dim)


def _partition(local: torch.Tensor, at: _Site) -> torch.Tensor:
    return _torch.partition(at.dst, local, at.mesh, at.mesh_dim)


def _zero_fill(local: torch.Tensor, at: _Site) -> torch.Tensor:
    """Zeros but for this rank's own piece."""
    dim: int = at.src.dim  # type: ignore[attr-defined]
    whole = at.logical_shape[dim]
    offset = _torch.local_offset(whole, at.size, at.coordinate)
    # Pairs of what is put before and behind, from the last dim.
    padding = [0, 0] * (local.ndim - 1 - dim)
    return torch.constant_pad_nd(local, [*padding, offset, whole - offset - local.size(dim)], 0)


def _permute(local: torch.Tensor, at: _Site) -> torch.Tensor:
    """Every rank sends its whole block to one rank, and gets one of the same shape."""
    step = at.step
    sizes = tuple(at.whole.size(mesh_dim) for mesh_dim in range(at.whole.ndim))
    table = destinations(step.before.shard_order, step.after.shard_order, sizes, step.mesh_dims)
    flat = local.contiguous().view(-1)
    counts: list[int] = _counts(flat.size(0), at.coordinate, table)
    sent, received = counts[: len(table)], counts[len(table) :]
    return _torch.exchange(flat, received, sent, at.mesh, at.mesh_dim).view(local.shape)


@_torch.on_each_rank
def _counts(elements: int, coordinate: int, table: Sequence[int]) -> list[int]:
    """How many elements go to each rank, and after these how many come from each."""
    sent = [elements if rank == table[coordinate] else 0 for rank in range(len(table))]
    return sent + [elements if receiver == coordinate else 0 for receiver in table]


_REDUCING = ("all_reduce", "reduce_scatter")
# Those that a plan of torch's has, too.
_AS_TORCHS = (*_REDUCING, "all_gather", "all_to_all", "chunk")
_MOVES: Mapping[str, Callable[[torch.Tensor, _Site], torch.Tensor]] = {
    "all_gather": _all_gather,
    "all_reduce": _all_reduce,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "permute": _permute,
    "chunk": _chunk,
    "partition": _partition,
    "zero_fill": _zero_fill,
}
