"""The place where torch carries out redistributions, given other plans than torch's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import _torch
from .._torch import DeviceMesh, DTensorSpec, is_shard
from ..model.plan_steps import Layout, Step
from .execution import run

__all__ = ["layout_of", "layout_text", "plan_text", "redistribute_with"]

PlanOf = Callable[[DTensorSpec, DTensorSpec], Sequence[Step] | None]


def redistribute_with(
    plan_of: PlanOf, between_ops: Callable[[DeviceMesh], None] | None = None
) -> Callable[..., torch.Tensor]:
    """What can stand in for torch's ``redistribute_local_tensor`` (`_torch.install_redistribute`).

    torch's own runs where it refuses or has nothing to do on this rank, where the program asks for
    one of torch's planners (by argument or ``use_min_cost_redistribution_plan``), where one rank
    traces for all, and where there is no plan.

    Args:
        plan_of: The steps from the first spec to the second, the same on every rank; or None.
        between_ops: Called with the mesh, after planning, where the program itself redistributes:
            then torch's dispatcher is not within an op.
    """

    def redistribute_local_tensor(
        local_tensor: torch.Tensor,
        current_spec: DTensorSpec,
        target_spec: DTensorSpec,
        **options: Any,
    ) -> torch.Tensor:
        steps = None
        is_explicit = options.get("is_explicit", False)
        if (
            options.get("use_graph_based_transform") is None
            and not _torch.forces_a_planner()
            and not _torch.plans_for_any_rank()
            and _torch.is_redistributed_here(current_spec, target_spec)
        ):
            steps = plan_of(current_spec, target_spec)
            if is_explicit and between_ops is not None:
                between_ops(current_spec.mesh)
        if steps is None:
            return _torch.torch_redistribute(local_tensor, current_spec, target_spec, **options)

        def transforms() -> str:
            return plan_text(steps) if steps else layout_text(layout_of(current_spec))

        with _torch.recorded_redistribution(
            local_tensor, current_spec, target_spec, transforms, is_explicit
        ):
            mesh, async_op = current_spec.mesh, options.get("async_op", False)
            return run(steps, local_tensor, mesh, current_spec.shape, async_op=async_op)

    return redistribute_local_tensor


def layout_of(spec: DTensorSpec) -> Layout:
    """A spec's placements and shard order as they stand in it."""
    order = tuple((entry.tensor_dim, tuple(entry.mesh_dims)) for entry in spec.shard_order or ())
    return Layout(spec.placements, order)


def plan_text(steps: Sequence[Step]) -> str:
    """The layouts that a plan passes through, as torch's DebugMode shows them.

    ``S(0)[0]S(0)[1]->S(0)R``; ``-->`` is a step on several mesh dims flattened into one.
    """
    parts = [layout_text(step.before) for step in steps[:1]]
    for step in steps:
        parts.append("->" if len(step.mesh_dims) == 1 else "-->")
        parts.append(layout_text(step.after))
    return "".join(parts)


def layout_text(layout: Layout) -> str:
    """The placements in torch's short form; of shards of one tensor dim also which cuts first."""
    orders = dict(layout.shard_order)

    def text(mesh_dim: int, placement: Any) -> str:
        order = orders.get(placement.dim, ()) if is_shard(placement) else ()
        # A mesh dim of size 1 cuts nothing and is in no order.
        if len(order) < 2 or mesh_dim not in order:
            return str(placement)
        return f"{placement}[{order.index(mesh_dim)}]"

    return "".join(text(*indexed) for indexed in enumerate(layout.placements))
