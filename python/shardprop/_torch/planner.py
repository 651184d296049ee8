"""torch's redistribution planners: the program's settings for them, and what they merge."""

from __future__ import annotations

from typing import Any

from torch.distributed.tensor import _redistribute

from .pricing import torch_gen_transform_infos
from .types import DTensorSpec, Placement


def graph_plan_wanted(argument: bool | None) -> bool:
    """Which planner torch takes where neither order nor strided shards decide."""
    forced = _redistribute._FORCE_MIN_COST_REDISTRIBUTION_PLAN
    return bool(argument if forced is None else forced)


def forces_graph_plan() -> bool:
    """Has the program asked for torch's graph planner everywhere?

    (``use_min_cost_redistribution_plan``.)
    """
    return bool(_redistribute._FORCE_MIN_COST_REDISTRIBUTION_PLAN)


def forces_a_planner() -> bool:
    """Has the program named one of torch's two planners for everything?

    (``use_min_cost_redistribution_plan``, with True or False.)
    """
    return _redistribute._FORCE_MIN_COST_REDISTRIBUTION_PLAN is not None


def merging_disabled() -> bool:
    """Has the program forbidden to merge collectives on a flattened mesh?

    (``disable_redistribute_transform_optimization``.)
    """
    return bool(_redistribute._DISABLE_REDISTRIBUTE_TRANSFORM_OPTIMIZATION)


def merged_steps(
    infos: list[Any], source: DTensorSpec, target: DTensorSpec
) -> list[tuple[tuple[int, ...], Placement]]:
    """Steps of torch's as it carries them out, those on a flattened mesh merged: the mesh dims of
    each, and the placement after it."""
    merged = _redistribute._optimize_transform_infos(
        infos, source.mesh, source.placements, target.placements
    )
    return [
        (getattr(info, "original_mesh_dims", (info.mesh_dim,)), info.src_dst_placements[1])
        for info in merged
    ]


def forget_plans() -> None:
    """Clear the caches of torch's redistribution planners (and with them their history)."""
    torch_gen_transform_infos.cache_clear()
    _redistribute.clear_redistribute_planner_cache()
