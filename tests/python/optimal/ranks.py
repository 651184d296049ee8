"""Plans run on all ranks of a mesh that one process stands for."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import torch
from torch.distributed.device_mesh import DeviceMesh

from shardprop import _torch
from shardprop.model.plan_steps import Step
from shardprop.redistribution.execution import run

from .local import fault, split
from .walks import Groups, Tensor


@functools.cache
def flattened(sizes: tuple[int, ...], groups: Groups) -> DeviceMesh:
    """A mesh of the first ranks with named dims, flattened over each of the groups."""
    ranks = torch.arange(math.prod(sizes)).reshape(sizes)
    mesh = DeviceMesh("cpu", ranks, mesh_dim_names=tuple("abcde"[: len(sizes)]))
    for group in groups:
        _torch.flatten_dims(mesh, group)
    return mesh


def all_groups(sizes: Sequence[int]) -> Groups:
    """Every set of two or more mesh dims that are larger than 1."""
    active = [m for m, size in enumerate(sizes) if size > 1]
    counts = range(2, len(active) + 1)
    return tuple(group for count in counts for group in itertools.combinations(active, count))


def numbers(shape: Sequence[int], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """A different whole number for each element."""
    return torch.arange(1, math.prod(shape) + 1).reshape(tuple(shape)).to(dtype)


def carried_out(
    steps: Sequence[Step],
    tensor: Tensor,
    local: Sequence[torch.Tensor],
    *,
    async_op: bool = False,
) -> list[torch.Tensor]:
    """What the ranks hold after the steps."""
    ranks = math.prod(tensor.sizes)
    mesh = flattened(tensor.sizes, tensor.groups)
    with _torch.all_ranks_at_once(ranks):
        held = _torch.as_one_tensor([each.clone() for each in local])
        made = run(steps, held, mesh, tensor.shape, async_op=async_op)
        return _torch.tensors_of_ranks(_torch.waited(made), ranks)


def fault_of(steps: Sequence[Step], tensor: Tensor, seed: int = 0, **options: bool) -> str | None:
    """What is wrong with the data that the steps lead to; None if nothing is."""
    whole = numbers(tensor.shape)
    local = split(whole, steps[0].before, tensor.sizes, seed)
    made = carried_out(steps, tensor, local, **options)
    return fault(made, whole, steps[-1].after, tensor.sizes)
