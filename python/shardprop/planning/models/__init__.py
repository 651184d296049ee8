"""Plans for whole models (docs/model-plans.md)."""

from .capturing import Capture, capture
from .model_plan import ModelPlacements, ModelPlan, Redistribution
from .report import ModuleCosts, PlanReport

__all__ = [
    "Capture",
    "ModelPlacements",
    "ModelPlan",
    "ModuleCosts",
    "PlanReport",
    "Redistribution",
    "capture",
]
