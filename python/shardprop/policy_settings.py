"""What a policy is made with: the settings of `enable`, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from os import PathLike
from typing import Any

from .cost_model import Price
from .errors import ShardpropError
from .exact import ExactPlanner
from .policy import OptimalPolicy, Policy, TorchPolicy
from .stats import Recorder
from .topology import PRESETS, CostSource, load_topology

__all__ = ["TopologyLike", "exact_planner", "make_policy"]

# What a topology may be given as.
TopologyLike = str | PathLike[str] | Mapping[str, Any] | CostSource | Price


def make_policy(name: str, as_torch: TorchPolicy, recorder: Recorder, **settings: Any) -> Policy:
    """The policy of that name; `settings` are the arguments of `exact_planner`.

    Raises:
        ShardpropError: an unknown policy, settings that are not for it, or as `exact_planner`.
    """
    given = {key: value for key, value in settings.items() if value is not None}
    if name == "torch":
        if given:
            raise ShardpropError(
                f"Expected {', '.join(given)} with policy 'optimal' alone, got policy 'torch'."
            )
        return as_torch
    if name == "optimal":
        return OptimalPolicy(exact_planner(**given), as_torch, recorder)
    raise ShardpropError(f"Expected policy 'torch' or 'optimal', got {name!r}.")


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
    if memory_limit is not None and not (_is_number(memory_limit) and memory_limit > 0):
        raise ShardpropError(f"memory_limit: Expected bytes above 0, got {memory_limit!r}.")
    if not (_is_number(output_weight) and output_weight >= 0):
        raise ShardpropError(
            f"output_weight: Expected a finite number of 0 and more, got {output_weight!r}."
        )
    return ExactPlanner(
        load_topology(topology),
        memory_limit=memory_limit,
        create_groups=create_groups,
        output_weight=output_weight,
    )


def _is_number(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)  # type: ignore[arg-type]
