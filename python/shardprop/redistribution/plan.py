"""A plan as a program can look at it, and carry it out."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from .. import _torch
from .._torch import DTensor, DTensorSpec
from ..cost.cost_model import COLLECTIVES
from ..errors import ShardpropError
from ..model.plan_steps import Step
from ..support.drawing import drawer
from ..support.picture import Picture
from .execution import local_shape, run
from .hint import Hint
from .hook import plan_text
from .optimal_planner import ExactPlanner

__all__ = ["Plan"]


@dataclass(frozen=True)
class Plan:
    """How a tensor goes from one layout to another, and what that costs under a cost model.

    Attributes:
        src: What it starts from.
        dst: What it leads to.
        steps: In the order in which they run; the same on every rank.
        policy: Who planned: ``"optimal"``, or ``"torch"`` for torch's own plan.
        planner: That made it under policy ``"optimal"``.
    """

    src: DTensorSpec
    dst: DTensorSpec
    steps: tuple[Step, ...]
    policy: str
    planner: ExactPlanner | None = field(default=None, repr=False, compare=False)

    @functools.cached_property
    def hint(self) -> Hint | None:
        """What flattened meshes would save; None: nothing, or the plan is torch's."""
        if self.planner is None or self.collectives < 2:
            return None
        return self.planner.hint(self.src, self.dst, self.cost_us)

    def __getstate__(self) -> dict[str, object]:
        # A planner holds what the core made, which cannot be copied; the hint is all it is asked.
        return {**self.__dict__, "hint": self.hint, "planner": None}

    @property
    def comm_us(self) -> float:
        """Microseconds of communication."""
        return sum(step.comm_us for step in self.steps)

    @property
    def local_us(self) -> float:
        """Microseconds of local work: copies, chunks, divisions."""
        return sum(step.local_us for step in self.steps)

    @property
    def cost_us(self) -> float:
        """Microseconds in all."""
        return self.comm_us + self.local_us

    @property
    def collectives(self) -> int:
        """How many steps communicate."""
        return sum(step.kind in COLLECTIVES for step in self.steps)

    @property
    def wire_bytes(self) -> int:
        """Bytes that a rank sends."""
        return sum(step.wire_bytes for step in self.steps)

    @property
    def peak_bytes(self) -> int:
        """The most bytes that a rank holds at once during a step."""
        return max((step.peak_bytes for step in self.steps), default=0)

    def run(self, local_tensor: torch.Tensor) -> torch.Tensor:
        """Carry the plan out on this rank's tensor; all ranks of the mesh have to.

        A rank outside the mesh gets its tensor back.

        Args:
            local_tensor: What this rank holds under `src`; a meta or fake tensor, too.

        Raises:
            ShardpropError: another tensor; or a step needs a flattened mesh that is gone.
            Exception: what torch's collectives raise.
        """
        mesh = self.src.mesh
        self._check(local_tensor)
        if mesh.get_coordinate() is None:
            return local_tensor
        return run(self.steps, local_tensor, mesh, self.src.shape)

    def plot(self, *, dims: Sequence[int] | None = None) -> Picture:
        """The layouts it passes through, drawn, with the step between each two and its price.

        Args:
            dims: The tensor dims to draw, as rows and columns.

        Raises:
            ShardpropError: `dims` are not of the tensor.
        """
        return drawer().plot_plan(self, dims=dims)

    def _check(self, local: object) -> None:
        if not isinstance(local, torch.Tensor) or isinstance(local, DTensor):
            raise ShardpropError(
                f"local_tensor: Expected this rank's torch.Tensor, got a {type(local).__name__}"
                f"{': pass its to_local()' if isinstance(local, DTensor) else ''}."
            )
        meta = self.src.tensor_meta
        if meta is not None and local.dtype != meta.dtype:
            raise ShardpropError(
                f"local_tensor: Expected the dtype of src, {meta.dtype}, got {local.dtype}."
            )
        mesh = self.src.mesh
        if not self.steps or mesh.get_coordinate() is None:
            return
        if _torch.in_local_tensor_mode() or _torch.may_be_symbolic():
            return  # the sizes are no plain numbers
        expected = local_shape(self.steps[0].before, self.src.shape, mesh)
        if list(local.shape) != expected:
            raise ShardpropError(
                f"local_tensor: Expected what this rank holds under src, {tuple(expected)}, got "
                f"{tuple(local.shape)}."
            )

    def __str__(self) -> str:
        if not self.steps:
            return f"{self.src.placements}: nothing to do"
        head = (
            f"{plan_text(self.steps)}  {self.cost_us:.1f} us ({self.comm_us:.1f} communication, "
            f"{self.local_us:.1f} local), {self.wire_bytes} bytes sent, {self.peak_bytes} held"
        )
        lines = [head, *(f"  {step}" for step in self.steps)]
        if self.hint is not None:
            lines.append(f"  {self.hint.text(self.src.mesh)}")
        return "\n".join(lines)
