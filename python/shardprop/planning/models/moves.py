"""DTensors brought from layout to layout by exact plans."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ... import _torch
from ..._torch import DeviceMesh, DTensor, DTensorSpec, make_spec
from ...cost.cost_model import COLLECTIVES
from ...errors import ShardpropError
from ...model.placements import Placements
from ...model.plan_steps import Step
from ...redistribution.errors import why_no_plan
from ...redistribution.execution import run
from ...redistribution.optimal_planner import ExactPlanner

__all__ = ["Volume", "in_memory_like", "moved", "moving", "volume"]


@dataclass
class Volume:
    """What redistributions take.

    Attributes:
        redistributions: How many tensors were moved; a local chunk counts, too.
        collectives: How many steps of them communicate.
        wire_bytes: Bytes that a rank sends.
    """

    redistributions: int = 0
    collectives: int = 0
    wire_bytes: int = 0

    def add(self, other: Volume) -> None:
        """Count what another counts as well."""
        self.redistributions += other.redistributions
        self.collectives += other.collectives
        self.wire_bytes += other.wire_bytes


def volume(steps: Sequence[Step]) -> Volume:
    """Of one redistribution."""
    return Volume(
        redistributions=bool(steps),
        collectives=sum(step.kind in COLLECTIVES for step in steps),
        wire_bytes=sum(step.wire_bytes for step in steps),
    )


def moved(planner: ExactPlanner, tensor: DTensor, placements: Placements) -> DTensor:
    """The tensor under other placements, by the planner's plan; itself if it has them.

    Not seen by autograd.

    Raises:
        ShardpropError: there is no plan.
        _core.Unsupported: specs that the core does not model.
    """
    src = _torch.spec_of(tensor)
    dst = make_spec(src.mesh, placements, src.tensor_meta)
    if src == dst:
        return tensor
    local = moving(planner, src, dst)(_torch.local_of(tensor))
    return _torch.wrapped(_laid_out_like(tensor, local), dst)


def moving(
    planner: ExactPlanner, src: DTensorSpec, dst: DTensorSpec
) -> Callable[[torch.Tensor], torch.Tensor]:
    """What brings what a rank holds from one layout to the other, by the planner's plan.

    Raises:
        As `moved` does.
    """
    steps = planner.steps(src, dst)
    if steps is None:
        raise ShardpropError(why_no_plan(src, dst, None))
    return functools.partial(_run, steps, src.mesh, src.shape)


def _run(
    steps: Sequence[Step], mesh: DeviceMesh, shape: Sequence[int], local: torch.Tensor
) -> torch.Tensor:
    return run(steps, local, mesh, shape)


def _laid_out_like(whole: torch.Tensor, local: torch.Tensor) -> torch.Tensor:
    """A local tensor whose dims lie in memory in the order of the whole one's.

    Collectives leave contiguous tensors; a later view of the whole tensor must be one of the local
    tensor, too.
    """
    if whole.is_contiguous() or 0 in whole.stride():
        return local
    return in_memory_like(whole.stride(), local)


def in_memory_like(strides: Sequence[int], local: torch.Tensor) -> torch.Tensor:
    """A tensor whose dims lie in memory in the order of these strides, without gaps."""
    if local.stride() == strides_like(strides, local.shape):
        return local
    order = _outermost_first(strides)
    back = sorted(range(len(strides)), key=order.__getitem__)
    return local.permute(order).contiguous().permute(back)


def strides_like(strides: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """Those of such a tensor of this shape."""
    made, step = [0] * len(shape), 1
    for dim in reversed(_outermost_first(strides)):
        made[dim], step = step, step * max(shape[dim], 1)
    return tuple(made)


def _outermost_first(strides: Sequence[int]) -> list[int]:
    return sorted(range(len(strides)), key=lambda dim: -strides[dim])
