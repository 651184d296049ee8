"""DTensors brought from layout to layout by exact plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from ... import _core, _torch
from ..._torch import DTensor, DTensorSpec, Placement, make_spec
from ...cost.cost_model import COLLECTIVES
from ...model.plan_steps import Step
from ...redistribution.execution import run
from ...redistribution.optimal_planner import ExactPlanner

__all__ = ["Mover", "Volume", "volume"]


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


@dataclass
class Mover:
    """Carries out the redistributions of a plan, and counts them.

    Attributes:
        planner: Whose plans are carried out.
        done: What has been carried out.
        by_torch: How many redistributions the planner had no plan for: torch carried them out.
    """

    planner: ExactPlanner
    done: Volume = field(default_factory=Volume)
    by_torch: int = 0

    def moved(self, tensor: DTensor, placements: tuple[Placement, ...]) -> DTensor:
        """The tensor under other placements; itself if it has them. Not seen by autograd."""
        src = _torch.spec_of(tensor)
        dst = make_spec(src.mesh, placements, src.tensor_meta)
        if src == dst:
            return tensor
        local = self._local(tensor.to_local(), src, dst)
        return _torch.dtensor_of(_laid_out_like(tensor, local), dst)

    def _local(self, local: torch.Tensor, src: DTensorSpec, dst: DTensorSpec) -> torch.Tensor:
        try:
            steps = self.planner.steps(src, dst)
        except _core.Unsupported:
            steps = None
        if steps is None:
            self.by_torch += 1
            return _torch.torch_redistribute(local, src, dst)
        self.done.add(volume(steps))
        return run(steps, local, src.mesh, src.shape)


def _laid_out_like(whole: torch.Tensor, local: torch.Tensor) -> torch.Tensor:
    """A local tensor whose dims lie in memory in the order of the whole one's.

    Collectives leave contiguous tensors; a later view of the whole tensor must be one of the local
    tensor, too.
    """
    if whole.is_contiguous() or 0 in whole.stride():
        return local
    return in_memory_like(whole.stride(), local)


def in_memory_like(strides: Sequence[int], local: torch.Tensor) -> torch.Tensor:
    """A tensor whose dims lie in memory in the order of these strides."""
    order = sorted(range(len(strides)), key=strides.__getitem__, reverse=True)
    back = sorted(range(len(strides)), key=order.__getitem__)
    return local.permute(order).contiguous().permute(back)
