"""Policy ``optimal``: limits that hold, fallbacks that are counted or refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.distributed.tensor import Partial
from torch.distributed.tensor._redistribute import use_min_cost_redistribution_plan
from torch.distributed.tensor._utils import ExplicitRedistributionContext

import shardprop
from shardprop import ShardpropError, _core, _torch
from shardprop.propagation import optimal_policy
from shardprop.propagation.propagator import current_policy
from shardprop.redistribution.optimal_planner import ExactPlanner

from ..narrow import sharded
from ..specs import R, S, spec_of
from .enabled import TOPOLOGY, dtensor, fresh_mesh, mm


@pytest.fixture(autouse=True)
def disabled_afterwards() -> Iterator[None]:
    shardprop.reset_stats()
    yield
    shardprop.disable()


def declined(*_: object, **__: object) -> object:
    raise _core.Unsupported("test reason")


def test_a_redistribution_that_no_plan_fits_raises() -> None:
    x = dtensor(fresh_mesh(4, 4), (16, 64), [S(0), R])
    shardprop.enable(policy="optimal", topology=TOPOLOGY, memory_limit=100)
    with pytest.raises(
        ShardpropError, match=r"within memory_limit=100 bytes .* Raise memory_limit"
    ):
        x.redistribute(placements=[R, R])
    assert shardprop.stats().policy_fallbacks == {}


def test_an_op_that_no_strategy_fits_raises() -> None:
    mesh = fresh_mesh(4, 4)
    x = dtensor(mesh, (16, 64), [S(0), R])
    shardprop.enable(policy="optimal", topology=TOPOLOGY, memory_limit=100)
    with pytest.raises(Exception, match=r"aten\.mm\.default: No strategy .* memory_limit=100"):
        mm(x, x)
    spec = spec_of(mesh, (64, 64), [S(0), R])
    with pytest.raises(ShardpropError, match=r"aten\.mm\.default: No strategy .*memory_limit=100"):
        shardprop.propagate(mm, spec, spec)
    with pytest.raises(ShardpropError, match=r"aten\.mm\.default: No strategy .*memory_limit=100"):
        shardprop.propagate_toward([None], mm, spec, spec)
    assert shardprop.stats().policy_fallbacks == {}


def test_an_op_of_a_rule_of_ours_that_no_plan_fits_is_not_answered() -> None:
    mesh = fresh_mesh(4)
    softmax = torch.ops.aten._softmax.default
    shardprop.enable(policy="optimal", topology=TOPOLOGY, memory_limit=100)
    stays, moves = (spec_of(mesh, (64, 64), [S(dim)]) for dim in (0, 1))
    assert shardprop.propagate(softmax, stays, 1, False).cost == 0.0
    with pytest.raises(ShardpropError, match=r"_softmax\.default: No strategy .*memory_limit=100"):
        shardprop.propagate(softmax, moves, 1, False)


def test_the_limit_that_is_enabled_is_named_by_plan() -> None:
    mesh = fresh_mesh(4)
    ends = spec_of(mesh, (64, 64), [S(0)]), spec_of(mesh, (64, 64), [R])
    with (
        shardprop.enabled(policy="optimal", topology=TOPOLOGY, memory_limit=4200),
        pytest.raises(ShardpropError, match="memory_limit=4200 bytes"),
    ):
        shardprop.plan(*ends)
    with pytest.raises(ShardpropError, match=r"18\.8 minutes or more does not exist"):
        shardprop.plan(*ends, topology=lambda *_: 1e300)


def test_a_limit_of_ones_own_leaves_the_topology_that_is_enabled() -> None:
    mesh = fresh_mesh(4)
    ends = spec_of(mesh, (64, 64), [S(0)]), spec_of(mesh, (64, 64), [R])
    with shardprop.enabled(policy="optimal", topology=lambda *_: 7.0):
        assert shardprop.plan(*ends, memory_limit=1e9).cost_us == pytest.approx(7.0)
        other = shardprop.plan(*ends, topology=lambda *_: 9.0, memory_limit=1e9)
        assert other.cost_us == pytest.approx(9.0)


def test_a_limit_or_a_topology_of_ones_own_counts_alone() -> None:
    mesh = fresh_mesh(4)
    ends = spec_of(mesh, (64, 64), [S(0)]), spec_of(mesh, (64, 64), [R])
    with (
        shardprop.enabled(policy="optimal", topology=lambda *_: 7.0),
        pytest.raises(ShardpropError, match="memory_limit=4200 bytes"),
    ):
        shardprop.plan(*ends, memory_limit=4200)
    with shardprop.enabled(policy="optimal", topology=lambda *_: 7.0, memory_limit=4200):
        free = shardprop.plan(*ends, topology=lambda *_: 9.0)
    assert free.cost_us == pytest.approx(9.0)


def test_what_has_no_plan_is_left_to_torch_and_counted_or_refused() -> None:
    x = dtensor(fresh_mesh(4), (16, 64), [S(0)])
    slow = {"policy": "optimal", "topology": lambda *_: 1e300}
    with shardprop.enabled(**slow):  # type: ignore[arg-type]
        assert x.redistribute(placements=[R]).placements == (R,)
        assert shardprop.stats().policy_fallbacks == {"no plan reaches the target": 1}
    with (
        shardprop.enabled(**slow, strict=True),  # type: ignore[arg-type]
        pytest.raises(ShardpropError, match=r"No plan from .* 18\.8 minutes"),
    ):
        x.redistribute(placements=[R])


@pytest.mark.parametrize("strict", [False, True])
def test_what_the_core_declines_is_counted_or_refused(
    strict: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = fresh_mesh(4)
    x = dtensor(mesh, (16, 64), [S(0)])
    ends = spec_of(mesh, (64, 64), [S(0)]), spec_of(mesh, (64, 64), [R])
    for name in ("_searched", "price"):
        monkeypatch.setattr(ExactPlanner, name, declined)
    monkeypatch.setattr(optimal_policy, "choose_cheapest", declined)
    shardprop.enable(policy="optimal", topology=TOPOLOGY, strict=strict)
    if strict:
        for ask in (
            lambda: x.redistribute(placements=[R]),
            lambda: shardprop.redistribute_cost(*ends),
            lambda: x + x,
        ):
            with pytest.raises(Exception, match="policy 'optimal' has no answer: test reason"):
                ask()
        assert shardprop.stats().policy_fallbacks == {}
    else:
        x.redistribute(placements=[R])
        shardprop.redistribute_cost(*ends)
        x + x
        assert shardprop.stats().policy_fallbacks == {"test reason": 3}


def test_propagate_never_answers_with_torchs_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(fresh_mesh(4), (64, 64), [S(0)])
    shardprop.enable(policy="optimal", topology=TOPOLOGY)
    monkeypatch.setattr(optimal_policy, "choose_cheapest", declined)
    with pytest.raises(
        ShardpropError, match=r"mm\.default: policy 'optimal' has no .* test reason"
    ):
        shardprop.propagate(mm, spec, spec)
    assert shardprop.stats().policy_fallbacks == {}


def test_a_collective_that_costs_nothing_is_an_implicit_redistribution() -> None:
    mesh = fresh_mesh(4)
    x, whole = dtensor(mesh, (16, 64), [S(0)]), dtensor(mesh, (64, 64), [R])
    partial = dtensor(mesh, (64, 64), [Partial("max")])
    shardprop.enable(policy="optimal", topology=lambda *_: 0.0)
    policy = current_policy()
    gather = spec_of(mesh, (64, 64), [S(0)]), spec_of(mesh, (64, 64), [R])
    assert policy.cost(*gather) == 0.0
    assert policy.communication(*gather) > 0.0
    assert policy.communication(*gather[::-1]) == 0.0
    with ExplicitRedistributionContext():
        assert sharded(x + whole).placements == (S(0),)
        with pytest.raises(RuntimeError, match="Implicit redistribution"):
            torch.sin(partial)


def test_there_is_no_way_to_another_mesh() -> None:
    ends = spec_of(fresh_mesh(4), (64, 64), [S(0)]), spec_of(fresh_mesh(2, 2), (64, 64), [R, R])
    shardprop.enable(policy="optimal", topology=TOPOLOGY, strict=True)
    assert current_policy().cost(*ends) == current_policy().communication(*ends) == math.inf
    equal = spec_of(fresh_mesh(4), (64, 64), [S(0)]), spec_of(fresh_mesh(4), (64, 64), [R])
    assert 0.0 < current_policy().cost(*equal) < math.inf


def test_a_gather_on_one_rank_is_no_implicit_redistribution() -> None:
    """Nothing is sent, though torch has a price for it."""
    x = dtensor(fresh_mesh(1), (8, 8), [S(0)])
    with ExplicitRedistributionContext():
        with pytest.raises(RuntimeError, match="Implicit redistribution"):
            torch.softmax(x, 0)
        shardprop.enable(policy="optimal", topology=TOPOLOGY)
        assert sharded(torch.softmax(x, 0)).placements == (R,)


@pytest.mark.parametrize("by_graph", [False, True])
def test_a_planner_of_torchs_that_the_program_names_plans(
    by_graph: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = dtensor(fresh_mesh(4), (16, 64), [S(0)])
    asked = []
    steps = ExactPlanner._searched

    def counted(*args: Any) -> Any:
        asked.append(1)
        return steps(*args)

    monkeypatch.setattr(ExactPlanner, "_searched", counted)
    shardprop.enable(policy="optimal", topology=TOPOLOGY)
    with use_min_cost_redistribution_plan(by_graph):
        assert _torch.forces_a_planner()
        assert x.redistribute(placements=[R]).placements == (R,)
    assert asked == []
    x.redistribute(placements=[R])
    assert asked == [1]
