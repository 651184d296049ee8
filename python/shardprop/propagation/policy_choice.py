"""A policy by its name.

What only policy ``optimal`` needs (cost models, NumPy) is loaded when it is first asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ..errors import ShardpropError
from ..support.numbers import is_finite_number
from ..support.stats import Recorder
from .policy import Policy, TorchPolicy

__all__ = ["HORIZON", "forget_planners", "make_policy"]

# How many ops ahead decisions look where consumers are known, and may look at most.
HORIZON = 8
_FARTHEST = 64

# The settings of policy "optimal" where `enable` is not given them.
_NOT_GIVEN: Mapping[str, object] = {
    "topology": None,
    "memory_limit": None,
    "create_groups": False,
    "output_weight": 0,
    "rules": "complete",
    "consumers": None,
    "horizon": HORIZON,
}


def make_policy(
    name: str,
    as_torch: Mapping[bool, TorchPolicy],
    recorder: Recorder,
    *,
    strict: bool,
    corrections: bool,
    **settings: Any,
) -> Policy:
    """The policy of that name; `settings` are the arguments of `exact_planner`, which `rules` are
    read, and who the `consumers` are that are known; `as_torch` is policy ``"torch"`` with
    corrections and without.

    Raises:
        ShardpropError: an unknown policy, settings that are not for it, or as `exact_planner`.
    """
    if name == "torch":
        given = [key for key, value in settings.items() if not _is_default(key, value)]
        if given:
            raise ShardpropError(
                f"Expected {', '.join(given)} with policy 'optimal' alone, got policy 'torch'."
            )
        return as_torch[bool(corrections)]
    if name == "optimal":
        from ..rules.book.completed import reads_the_book
        from .optimal_policy import OptimalPolicy
        from .output_prices import KnownConsumers
        from .policy_settings import exact_planner

        if not corrections:
            raise ShardpropError(
                "Expected corrections=False with policy 'torch' alone, got policy 'optimal'."
            )
        completes = reads_the_book(settings.pop("rules"))
        consumers, horizon = settings.pop("consumers"), settings.pop("horizon")
        if not isinstance(consumers, KnownConsumers | None):
            raise ShardpropError(
                f"consumers: Expected what watch_consumers() gives, got {type(consumers).__name__}."
            )
        if type(horizon) is not int or not 0 <= horizon <= _FARTHEST:
            raise ShardpropError(
                f"horizon: Expected a count of ops from 0 to {_FARTHEST}, got {horizon!r}."
            )
        planner = exact_planner(**settings)
        later = None
        if consumers is not None and horizon:
            later = consumers.ahead(planner, "complete" if completes else "torch", horizon)
        return OptimalPolicy(planner, as_torch[True], recorder, strict, completes, later)
    raise ShardpropError(f"Expected policy 'torch' or 'optimal', got {name!r}.")


def _is_default(key: str, value: object) -> bool:
    default = _NOT_GIVEN[key]
    return value is default or (key == "output_weight" and is_finite_number(value) and value == 0)


def forget_planners() -> None:
    """Forget the planners made for `query.plan`, if any can have been made."""
    settings = sys.modules.get(f"{__package__}.policy_settings")
    if settings is not None:
        settings.forget_planners()
