"""What documents named under other paths is still found there, and says where it is now."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from shardprop import former_paths


@pytest.mark.parametrize("former", sorted(former_paths.NOW_AT))
def test_a_former_path_leads_to_the_very_package(former: str) -> None:
    now = f"shardprop.{former_paths.NOW_AT[former]}"
    sys.modules.pop(f"shardprop.{former}", None)
    with pytest.warns(DeprecationWarning, match=f"shardprop.{former} is now {now};"):
        assert import_module(f"shardprop.{former}") is sys.modules[now]


def test_a_module_of_it_is_not_loaded_twice() -> None:
    sys.modules.pop("shardprop.topology.presets", None)
    with pytest.warns(DeprecationWarning) as warned:
        found = import_module("shardprop.topology.presets")
    assert found is import_module("shardprop.cost.topology.presets")
    assert warned[-1].filename != former_paths.__file__


def test_what_there_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"shardprop\.topologies"):
        import_module("shardprop.topologies")
