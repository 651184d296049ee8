"""What policy ``optimal`` is made with: the settings of `enable`, checked."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from os import PathLike
from typing import Any

from ..cost.cost_model import Price
from ..cost.topology import PRESETS, CostSource, load_topology
from ..errors import ShardpropError
from ..redistribution.optimal_planner import ExactPlanner
from ..support.numbers import is_finite_number

__all__ = [
    "TopologyLike",
    "exact_planner",
    "forget_planners",
    "planner_for_plans",
]

# What a topology may be given as.
TopologyLike = str | PathLike[str] | Mapping[str, Any] | CostSource | Price


_PLANNERS_HELD = 16

# More would have the core's prices of plans, in whole picoseconds, overflow.
_MOST_OUTPUT_WEIGHT = 1e6


def exact_planner(
    topology: TopologyLike | None = None,
    memory_limit: float | None = None,
    create_groups: bool = False,
    output_weight: float = 0.0,
) -> ExactPlanner:
    """A planner under a topology; arguments as those of `enable`.

    Raises:
        ShardpropError: as `enable` does.
    """
    if topology is None:
        raise ShardpropError(
            "Expected a topology with policy 'optimal', got none: it has to know what collectives "
            f"cost. Presets: {', '.join(PRESETS)}."
        )
    if memory_limit is not None and not (is_finite_number(memory_limit) and memory_limit > 0):
        raise ShardpropError(f"memory_limit: Expected bytes above 0, got {memory_limit!r}.")
    if not isinstance(create_groups, bool):
        raise ShardpropError(f"create_groups: Expected True or False, got {create_groups!r}.")
    if not (is_finite_number(output_weight) and 0 <= output_weight <= _MOST_OUTPUT_WEIGHT):
        raise ShardpropError(
            f"output_weight: Expected a number from 0 to {_MOST_OUTPUT_WEIGHT:.0f}, got "
            f"{output_weight!r}."
        )
    return ExactPlanner(
        load_topology(topology),
        memory_limit=memory_limit,
        create_groups=create_groups,
        output_weight=output_weight,
    )


def planner_for_plans(topology: TopologyLike | None, memory_limit: float | None) -> ExactPlanner:
    """A planner for `query.plan`; under a preset the one that was made before, if any.

    Raises:
        ShardpropError: as `exact_planner` does.
    """
    if not isinstance(topology, str) or topology not in PRESETS:
        return exact_planner(topology, memory_limit)
    try:
        return _planner_under_preset(topology, memory_limit)
    except TypeError:  # a limit without a hash: no number
        return exact_planner(topology, memory_limit)


@functools.lru_cache(_PLANNERS_HELD, typed=True)
def _planner_under_preset(name: str, memory_limit: float | None) -> ExactPlanner:
    return exact_planner(name, memory_limit)


def forget_planners() -> None:
    """Forget the planners made for `query.plan`."""
    _planner_under_preset.cache_clear()
