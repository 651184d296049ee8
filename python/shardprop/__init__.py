"""shardprop: a compiled sharding propagator for PyTorch DTensor."""

import os
from typing import TYPE_CHECKING

from ._torch import Partial, Replicate, Shard
from .built import build_config
from .calibration import Calibration, calibrate
from .calibration import Settings as CalibrationSettings
from .errors import ShardpropError
from .exact import ExactPlanner
from .full_mesh import LayoutTable, Strategies, Strategy, strategies
from .placeholder import ShardingPlaceholder
from .plans import Layout, Step
from .propagator import clear_caches, disable, enable, enabled, is_enabled, reset_stats, stats
from .query import Decision, plan, propagate, propagate_toward, redistribute_cost
from .redistribute_plan import Plan
from .registration import (
    register_rule,
    register_single_dim_rule,
    temporary_rules,
    unregister,
)
from .stats import Stats
from .topology import CallbackTopology, Topology, TorchTopology, load_topology
from .version import __version__ as __version__

__all__ = [
    "Calibration",
    "CalibrationSettings",
    "CallbackTopology",
    "Decision",
    "ExactPlanner",
    "Explanation",
    "Layout",
    "LayoutTable",
    "Partial",
    "Plan",
    "Replicate",
    "Shard",
    "ShardingPlaceholder",
    "ShardpropError",
    "Stats",
    "Step",
    "Strategies",
    "Strategy",
    "Topology",
    "TorchTopology",
    "Trace",
    "build_config",
    "calibrate",
    "clear_caches",
    "disable",
    "enable",
    "enabled",
    "explain",
    "graph",
    "is_enabled",
    "load_topology",
    "plan",
    "plot_layout",
    "propagate",
    "propagate_toward",
    "redistribute_cost",
    "register_rule",
    "register_single_dim_rule",
    "reset_stats",
    "stats",
    "strategies",
    "temporary_rules",
    "trace",
    "unregister",
]

if TYPE_CHECKING:
    from . import graph
    from .explanation import Explanation, explain
    from .pictures import plot_layout
    from .tracing import Trace, trace
else:
    # Where names are that a program which only dispatches does without.
    _LATER = {
        "Explanation": "explanation",
        "Trace": "tracing",
        "explain": "explanation",
        "plot_layout": "pictures",
        "trace": "tracing",
    }

    def __getattr__(name: str) -> object:
        """`graph` and what `_LATER` names, when they are first asked for."""
        import importlib

        if name == "graph":
            return importlib.import_module(".graph", __name__)
        if name in _LATER:
            return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, whether they are loaded or not."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])


if os.environ.get("SHARDPROP") == "1":
    enable()
