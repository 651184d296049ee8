"""shardprop: a compiled sharding propagator for PyTorch DTensor."""

import os

from ._torch import Partial, Replicate, Shard
from .errors import ShardpropError
from .placeholder import ShardingPlaceholder
from .propagator import clear_caches, disable, enable, enabled, is_enabled, reset_stats, stats
from .query import Decision, plan, propagate, redistribute_cost
from .redistribution import Plan, Step
from .registration import (
    register_rule,
    register_single_dim_rule,
    temporary_rules,
    unregister,
)
from .stats import Stats

__all__ = [
    "Decision",
    "Partial",
    "Plan",
    "Replicate",
    "Shard",
    "ShardingPlaceholder",
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
    "register_rule",
    "register_single_dim_rule",
    "reset_stats",
    "stats",
    "temporary_rules",
    "unregister",
]

__version__ = "0.1.0"

if os.environ.get("SHARDPROP") == "1":
    enable()
