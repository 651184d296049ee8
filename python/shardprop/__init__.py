"""shardprop: a compiled sharding propagator for PyTorch DTensor."""

import os
from typing import TYPE_CHECKING

from . import former_paths
from .support.drawing import draw_with as _draw_with
from .version import __version__ as __version__

__all__ = [
    "Calibration",
    "CalibrationSettings",
    "CallbackTopology",
    "ComputeCost",
    "Consumers",
    "Decision",
    "Erased",
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
    "erase",
    "explain",
    "from_op_strategy",
    "graph",
    "is_enabled",
    "load_topology",
    "make_spec",
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
    "to_op_strategy",
    "trace",
    "unregister",
    "watch_consumers",
]

if TYPE_CHECKING:
    from . import graph
    from ._torch import Partial, Replicate, Shard
    from .cost.calibration import Calibration, calibrate
    from .cost.calibration import Settings as CalibrationSettings
    from .cost.compute import ComputeCost
    from .cost.topology import CallbackTopology, Topology, TorchTopology, load_topology
    from .erasure import Erased, erase
    from .errors import ShardpropError
    from .inspection.explanation import Explanation, explain
    from .inspection.report import plot_layout
    from .inspection.tracing import Trace, trace, watch_consumers
    from .model.plan_steps import Layout, Step
    from .planning.look_ahead import Consumers
    from .planning.strategies import (
        LayoutTable,
        Strategies,
        Strategy,
        from_op_strategy,
        make_spec,
        strategies,
        to_op_strategy,
    )
    from .propagation.propagator import (
        clear_caches,
        disable,
        enable,
        enabled,
        is_enabled,
        reset_stats,
        stats,
    )
    from .propagation.query import Decision, plan, propagate, propagate_toward, redistribute_cost
    from .redistribution.optimal_planner import ExactPlanner
    from .redistribution.plan import Plan
    from .rules.placeholder import ShardingPlaceholder
    from .rules.registration import (
        register_rule,
        register_single_dim_rule,
        temporary_rules,
        unregister,
    )
    from .support.build_info import build_config
    from .support.drawing import Drawer as _Drawer
    from .support.stats import Stats
else:
    # Where each name is: loaded when it is first asked for, so that a program loads what it uses.
    _HOMES = {
        "_torch": "Partial Replicate Shard",
        "support.build_info": "build_config",
        "cost.calibration": "Calibration calibrate",
        "cost.compute": "ComputeCost",
        "support.stats": "Stats",
        "erasure": "Erased erase",
        "errors": "ShardpropError",
        "redistribution.optimal_planner": "ExactPlanner",
        "inspection.explanation": "Explanation explain",
        "planning.strategies": (
            "LayoutTable Strategies Strategy from_op_strategy make_spec strategies to_op_strategy"
        ),
        "inspection.report": "plot_layout",
        "rules.placeholder": "ShardingPlaceholder",
        "model.plan_steps": "Layout Step",
        "propagation.propagator": (
            "clear_caches disable enable enabled is_enabled reset_stats stats"
        ),
        "propagation.query": "Decision plan propagate propagate_toward redistribute_cost",
        "redistribution.plan": "Plan",
        "rules.registration": "register_rule register_single_dim_rule temporary_rules unregister",
        "cost.topology": "CallbackTopology Topology TorchTopology load_topology",
        "inspection.tracing": "Trace trace watch_consumers",
        "planning.look_ahead": "Consumers",
    }
    _HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

    def __getattr__(name: str) -> object:
        """A public name or a module that is not loaded yet."""
        import importlib
        import importlib.util

        if name == "enable":
            # Not kept: the next time torch's import may be over.
            half = importlib.import_module(".half_imported", __name__)
            if half.is_torch_half_imported():
                return half.enable
        if name == "CalibrationSettings":
            value: object = importlib.import_module(".cost.calibration", __name__).Settings
        elif name in _HOME_OF:
            value = getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
        elif (
            name in former_paths.NOW_AT
            or importlib.util.find_spec(f".{name}", __name__) is not None
        ):
            return importlib.import_module(f".{name}", __name__)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """The public names, whether they are loaded or not."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])


def _drawer() -> "_Drawer":
    """What `Layout.plot` and `Plan.plot` draw with."""
    from .inspection import report

    return report


_draw_with(_drawer)
former_paths.find_under_former_paths()

if os.environ.get("SHARDPROP", "0") not in ("", "0"):
    from .environment import follow as _follow

    _follow()
