"""Whole-graph sharding problems: one label per node, least cost, with a proof (docs/graph.md); and
models captured as such problems (docs/model-plans.md)."""

from typing import TYPE_CHECKING, Any

from .planning.graph import (
    Evaluation,
    InfeasibleError,
    Problem,
    Solution,
    UnsolvedError,
    load_instance,
    solve,
)

if TYPE_CHECKING:
    from .planning.models import (
        Capture,
        ModelPlan,
        PlanDiff,
        PlanFile,
        PlanMemory,
        PlanReport,
        Timeline,
        capture,
    )

__all__ = [
    "Capture",
    "Evaluation",
    "InfeasibleError",
    "ModelPlan",
    "PlanDiff",
    "PlanFile",
    "PlanMemory",
    "PlanReport",
    "Problem",
    "Solution",
    "Timeline",
    "UnsolvedError",
    "capture",
    "load_instance",
    "solve",
]


_OF_MODELS = frozenset(
    {
        "Capture",
        "ModelPlan",
        "PlanDiff",
        "PlanFile",
        "PlanMemory",
        "PlanReport",
        "Timeline",
        "capture",
    }
)


def __getattr__(name: str) -> Any:
    # Loaded when first asked for: capturing needs torch, which a problem by itself does not.
    if name in _OF_MODELS:
        from .planning import models

        return getattr(models, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
