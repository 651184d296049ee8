"""shardprop: a compiled sharding propagator for PyTorch DTensor."""

import os

from .errors import ShardpropError
from .propagator import clear_caches, disable, enable, enabled, is_enabled, reset_stats, stats
from .query import Decision, plan, propagate, redistribute_cost
from .redistribution import Plan, Step
from .stats import Stats

__all__ = [
    "Decision",
    "Plan",
    "ShardpropError",
    "Stats",
    "Step",
    "clear_caches",
    "disable",
    "enable",
    "enabled",
    "is_enabled",
    "plan",
    "propagate",
    "redistribute_cost",
    "reset_stats",
    "stats",
]

__version__ = "0.1.0"

if os.environ.get("SHARDPROP") == "1":
    enable()
