"""What `enable` refuses of the settings of policy ``optimal``."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest

import shardprop
from shardprop import ShardpropError

from .enabled import TOPOLOGY

HUGE = 10**400
NAN = float("nan")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"output_weight": 1.1e6}, "output_weight: Expected a number from 0 to 1000000, got 11000"),
        ({"output_weight": HUGE}, "output_weight: Expected a number from 0 to 1000000, got 1000"),
        ({"output_weight": []}, r"output_weight: .*got \[\]"),
        ({"output_weight": True}, "output_weight: .*got True"),
        ({"memory_limit": HUGE}, "memory_limit: Expected bytes above 0, got 1000"),
        ({"memory_limit": NAN}, "memory_limit: Expected bytes above 0, got nan"),
        ({"memory_limit": 0}, "memory_limit: Expected bytes above 0, got 0"),
        ({"memory_limit": False}, "memory_limit: Expected bytes above 0, got False"),
        ({"create_groups": "no"}, "create_groups: Expected True or False, got 'no'"),
        ({"create_groups": 0}, "create_groups: Expected True or False, got 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ShardpropError, match=message):
        shardprop.enable(policy="optimal", topology=TOPOLOGY, **settings)
    assert not shardprop.is_enabled()


def test_a_block_has_the_settings_that_enable_has() -> None:
    """A default that one of them has and the other has not would depend on how it is called."""
    assert signature(shardprop.enabled).parameters == signature(shardprop.enable).parameters


@pytest.mark.parametrize(
    "settings",
    [
        {"topology": TOPOLOGY},
        {"memory_limit": 1},
        {"memory_limit": 0},
        {"create_groups": True},
        {"output_weight": NAN},
        {"output_weight": 2.0},
    ],
    ids=" ".join,
)
def test_settings_of_the_other_policy_are_refused(settings: dict[str, Any]) -> None:
    (name,) = settings
    with pytest.raises(ShardpropError, match=f"Expected {name} with policy 'optimal' alone"):
        shardprop.enable(**settings)


def test_the_most_and_the_least_are_taken() -> None:
    with shardprop.enabled(policy="optimal", topology=TOPOLOGY, output_weight=1e6, memory_limit=1):
        assert shardprop.is_enabled()
    with shardprop.enabled(policy="torch", output_weight=0):
        assert shardprop.is_enabled()
