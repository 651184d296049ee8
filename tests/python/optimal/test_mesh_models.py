"""What a planner keeps of meshes, and that it keeps neither these nor itself alive."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor._redistribute import (
    disable_redistribute_transform_optimization as no_merging,
)

import shardprop
from shardprop import ShardpropError, _torch
from shardprop.cost.topology import load_topology
from shardprop.propagation.policy_settings import exact_planner, forget_planners, planner_for_plans
from shardprop.redistribution.mesh_cost_models import MeshModels
from shardprop.redistribution.optimal_planner import ExactPlanner
from shardprop.support.cache import stats_of_maps

from ..narrow import known
from ..specs import R, S, spec_of
from .enabled import TOPOLOGY, dtensor, fresh_mesh

NAME = MeshModels.name


def models() -> MeshModels:
    return MeshModels(load_topology(TOPOLOGY), create_groups=False)


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A 1 for each time that torch's decisions are forgotten, after policy optimal is enabled."""
    times: list[int] = []
    with shardprop.enabled(policy="optimal", topology=TOPOLOGY):
        forget = _torch.forget_decisions

        def counted() -> None:
            times.append(1)
            forget()

        monkeypatch.setattr(_torch, "forget_decisions", counted)
        yield times
        monkeypatch.undo()


def gathered(mesh: DeviceMesh, **options: Any) -> None:
    dtensor(mesh, (2, 8), [S(0), S(0)]).redistribute(placements=[R, R], **options)


def test_a_model_is_made_once_until_the_groups_change() -> None:
    mesh, held = fresh_mesh(2, 2), models()
    first = held.of(mesh)
    assert held.of(mesh) is first and not held.outdated
    mesh._flatten()
    assert held.of(mesh) is not first and held.outdated


def test_a_plan_is_searched_for_once_until_the_groups_change() -> None:
    mesh, planner = fresh_mesh(2, 2), ExactPlanner(load_topology(TOPOLOGY))
    move = spec_of(mesh, (8, 8), [S(0), S(0)]), spec_of(mesh, (8, 8), [R, R])
    first = planner.steps(*move)
    assert planner.steps(*move) is first
    mesh._flatten()
    assert planner.steps(*move) is not first


def test_a_switch_of_merging_counts_where_there_is_something_to_merge() -> None:
    mesh, held = fresh_mesh(2, 2), models()
    held.of(mesh)
    with no_merging():
        held.of(mesh)
    assert not held.outdated
    flat = fresh_mesh(2, 2)
    flat._flatten()
    held.of(flat)
    with no_merging():
        held.of(flat)
    assert held.outdated


def test_no_plan_merges_where_the_program_forbids_it() -> None:
    mesh, planner = fresh_mesh(2, 2), ExactPlanner(load_topology(TOPOLOGY))
    mesh._flatten()
    move = spec_of(mesh, (8, 8), [S(0), S(0)]), spec_of(mesh, (8, 8), [R, R])
    with no_merging():
        assert [step.mesh_dims for step in known(planner.steps(*move))] == [(1,), (0,)]
    assert [step.mesh_dims for step in known(planner.steps(*move))] == [(0, 1)]


def test_torch_forgets_decisions_after_a_flatten_when_the_program_redistributes(
    forgotten: list[int],
) -> None:
    mesh = fresh_mesh(2, 2)
    gathered(mesh)
    gathered(mesh)
    assert forgotten == []
    mesh._flatten()
    gathered(mesh)
    gathered(mesh)
    assert forgotten == [1]


@pytest.mark.parametrize("options", [{}, {"forward_dtype": torch.float32}], ids=str)
def test_torch_forgets_decisions_at_each_switch_of_merging(
    forgotten: list[int], options: dict[str, Any]
) -> None:
    mesh = fresh_mesh(2, 2)
    mesh._flatten()
    gathered(mesh, **options)
    assert forgotten == []
    with no_merging():
        gathered(mesh, **options)
        assert forgotten == [1]
    gathered(mesh, **options)  # a move that was made before
    assert forgotten == [1, 1]


def test_torch_forgets_none_in_the_midst_of_an_op(forgotten: list[int]) -> None:
    mesh = fresh_mesh(2, 2)
    x, y = dtensor(mesh, (2, 8), [S(0), S(0)]), dtensor(mesh, (8, 2), [S(1), S(1)])
    x + y
    mesh._flatten()
    x - y
    assert forgotten == []
    gathered(mesh)
    assert forgotten == [1]


@pytest.mark.slow
def test_neither_a_mesh_nor_a_planner_is_kept_alive() -> None:
    mesh, planner = fresh_mesh(2, 2), exact_planner(TOPOLOGY)
    ends = spec_of(mesh, (8, 8), [S(0), R]), spec_of(mesh, (8, 8), [R, R])
    planner.price(*ends)
    entries = planner.models.stats().entries
    assert entries == 1
    finalizers = len(weakref.finalize._registry)  # type: ignore[attr-defined]
    mesh._flatten()
    planner.price(*ends)
    assert len(weakref.finalize._registry) == finalizers  # type: ignore[attr-defined]
    gone = weakref.ref(mesh)
    del mesh, ends
    gc.collect()
    assert gone() is None and planner.models.stats().entries == 0
    dead = weakref.ref(planner)
    del planner
    gc.collect()
    assert dead() is None


def test_planners_under_presets_are_kept_and_few() -> None:
    forget_planners()
    kept = planner_for_plans(TOPOLOGY, None)
    assert planner_for_plans(TOPOLOGY, None) is kept
    assert planner_for_plans(TOPOLOGY, 1000.0) is not kept
    for limit in range(1, 40):
        planner_for_plans(TOPOLOGY, limit)
    assert planner_for_plans(TOPOLOGY, None) is not kept
    with pytest.raises(ShardpropError, match="memory_limit"):
        planner_for_plans(TOPOLOGY, [])  # type: ignore[arg-type]
    kept = planner_for_plans(TOPOLOGY, None)
    shardprop.clear_caches()
    assert planner_for_plans(TOPOLOGY, None) is not kept


def test_what_the_core_finds_out_is_in_the_statistics() -> None:
    before = stats_of_maps()[NAME].entries if NAME in stats_of_maps() else 0
    planner = exact_planner(TOPOLOGY)
    mesh = fresh_mesh(2, 2)
    planner.price(spec_of(mesh, (8, 8), [S(0), R]), spec_of(mesh, (8, 8), [R, R]))
    held = shardprop.stats().caches[NAME]
    assert held.entries == before + 1 == held.capacity
    assert held.bytes > 0
    planner.clear()
    assert stats_of_maps()[NAME].entries == before
