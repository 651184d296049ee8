"""What a plan would cost if the mesh had more process groups than it has."""

from __future__ import annotations

from dataclasses import dataclass

from .. import _torch
from .._torch import DeviceMesh
from ..cost.cost_model import COLLECTIVES
from ..model.plan_steps import Step

__all__ = ["Hint", "hint_of"]


@dataclass(frozen=True)
class Hint:
    """The cheaper plan that a mesh would have with more of its dims flattened.

    Attributes:
        groups: The sets of mesh dims that it merges a collective over and that are not flattened.
        cost_us: Microseconds of that plan.
        saved_us: How much less that is than the plan that there is.
        collectives: How many of its steps communicate.
    """

    groups: tuple[tuple[int, ...], ...]
    cost_us: float
    saved_us: float
    collectives: int

    def text(self, mesh: DeviceMesh) -> str:
        """It in words: what to call, and what that gives."""
        calls = ", ".join(_flatten(mesh, group) for group in self.groups)
        return (
            f"with {calls}: {self.cost_us:.1f} us, {self.saved_us:.1f} less, "
            f"{self.collectives} collective{'s' * (self.collectives != 1)}"
        )


def hint_of(mesh: DeviceMesh, cost_us: float, steps: list[Step]) -> Hint | None:
    """What a plan with every group has over one of `cost_us`; None where that is nothing."""
    made = set(_torch.flattened_groups(mesh))
    merged = (step.mesh_dims for step in steps if len(step.mesh_dims) > 1)
    groups = tuple(dict.fromkeys(group for group in merged if group not in made))
    cheaper_us = sum(step.comm_us + step.local_us for step in steps)
    if not groups or cheaper_us >= cost_us:
        return None
    collectives = sum(step.kind in COLLECTIVES for step in steps)
    return Hint(groups, cheaper_us, cost_us - cheaper_us, collectives)


def _flatten(mesh: DeviceMesh, group: tuple[int, ...]) -> str:
    names = mesh.mesh_dim_names
    if names is None:
        return f"a process group of mesh dims {group} (give the mesh mesh_dim_names)"
    return f"mesh[{', '.join(repr(names[dim]) for dim in group)}]._flatten()"
