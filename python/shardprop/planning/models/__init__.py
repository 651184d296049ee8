"""Plans for whole models (docs/model-plans.md)."""

from .capturing import Capture, capture
from .memory import PlanMemory
from .model_plan import ModelPlacements, ModelPlan, Redistribution
from .plan_file import Change, PlanDiff, PlanFile, PlannedNode
from .report import ModuleCosts, PlanReport
from .timeline import Event, Timeline

__all__ = [
    "Capture",
    "Change",
    "Event",
    "ModelPlacements",
    "ModelPlan",
    "ModuleCosts",
    "PlanDiff",
    "PlanFile",
    "PlanMemory",
    "PlanReport",
    "PlannedNode",
    "Redistribution",
    "Timeline",
    "capture",
]
