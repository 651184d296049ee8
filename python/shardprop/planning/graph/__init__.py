"""Whole-graph sharding problems: one label per node, least cost, with a proof (docs/graph.md); and
models captured as such problems (docs/model-plans.md)."""

from typing import TYPE_CHECKING, Any

from .errors import InfeasibleError, UnsolvedError
from .evaluation import Evaluation
from .instances import load_instance
from .problem import Problem
from .solution import Solution
from .solving import solve

if TYPE_CHECKING:
    from ..models import Capture, ModelPlan, PlanReport, capture

__all__ = [
    "Capture",
    "Evaluation",
    "InfeasibleError",
    "ModelPlan",
    "PlanReport",
    "Problem",
    "Solution",
    "UnsolvedError",
    "capture",
    "load_instance",
    "solve",
]


def __getattr__(name: str) -> Any:
    # Made when first asked for: what captures models stands on what solves problems.
    if name in ("Capture", "ModelPlan", "PlanReport", "capture"):
        from .. import models

        return getattr(models, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
