"""What the core plans and chooses, put as the oracle puts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Partial
from torch.distributed.tensor._dtensor_spec import DTensorSpec

from shardprop import _core
from shardprop.cost.cost_model import COLLECTIVES, CostModel
from shardprop.model.plan_steps import Step
from shardprop.redistribution import mesh_cost_models
from shardprop.redistribution.optimal_planner import ExactPlanner, steps_of

from .brute_force import Total, price_of_steps
from .moves import Problem
from .state import State

__all__ = ["OneModel", "core_plan", "in_core", "is_mixed", "plan_fault", "total_of"]


@dataclass(frozen=True, eq=False)
class OneModel:
    """A topology of which the costs on every mesh are given.

    Attributes:
        model: For meshes of its sizes; its groups must be the flattened ones of the mesh.
    """

    model: CostModel

    def on(self, mesh: DeviceMesh, flattened: Sequence[tuple[int, ...]] = ()) -> CostModel:
        assert tuple(mesh.shape) == self.model.sizes, mesh
        return self.model

    def planner(self, memory_limit: float | None = None) -> ExactPlanner:
        return ExactPlanner(self, memory_limit=memory_limit)


def in_core(model: CostModel) -> _core.CostModel:
    """The core's form of a model, with all its groups."""
    return mesh_cost_models.in_core(model, len(model.sizes))


def is_mixed(spec: DTensorSpec) -> bool:
    """Are there partials that do not mix? There is no data that they stand for."""
    ops = {
        placement.reduce_op
        for mesh_dim, placement in enumerate(spec.placements)
        if isinstance(placement, Partial) and spec.mesh.size(mesh_dim) > 1
    }
    return len(ops) > 1 and ops != {"sum", "avg"}


def core_plan(
    model: _core.CostModel, src: DTensorSpec, dst: DTensorSpec, memory_limit: int | None = None
) -> list[Step] | None:
    """The core's plan; None where it finds none, or refuses partials that do not mix.

    Raises:
        _core.Unsupported: it does not plan between such specs.
    """
    try:
        found, steps, _ = _core.exact_plan(model, src, dst, float(memory_limit or 0))
    except _core.Unsupported as reason:
        if str(reason) != "mixed partials" or not (is_mixed(src) or is_mixed(dst)):
            raise
        return None
    return steps_of(steps) if found else None


def plan_fault(
    plan: Sequence[Step] | None, problem: Problem, start: State, least: Total | None
) -> str | None:
    """Why a plan is not one of the cheapest, which cost `least`; None if it is."""
    if plan is None or least is None:
        if plan is None and least is None:
            return None
        return f"found {plan and list(map(str, plan))}, expected a plan of {least}"
    try:
        # Of legal steps only, joined, and from the start to the target.
        total = price_of_steps(plan, problem, start)
    except ValueError as fault:
        return str(fault)
    if total != least or total != total_of(plan):
        return f"found {list(map(str, plan))} of {total}, expected {least}"
    return None


def total_of(plan: Sequence[Step]) -> Total:
    """By what the steps say of themselves."""
    return Total(
        sum(round(1e6 * step.comm_us) + round(1e6 * step.local_us) for step in plan),
        sum(step.kind in COLLECTIVES for step in plan),
        max((step.peak_bytes for step in plan), default=0),
    )
