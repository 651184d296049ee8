"""Redistribution: price and plan, greedy and graph. Caches are cold in every round."""

from __future__ import annotations

from typing import Any

import pytest
from torch.distributed.tensor._redistribute import use_min_cost_redistribution_plan

import shardprop
from shardprop import _torch
from shardprop.propagation.propagator import torch_planner

from .conftest import MESHES
from .engine import P, R, S, spec_of


def pair(mesh: Any) -> tuple[Any, Any]:
    n = mesh.ndim
    return (
        spec_of(mesh, (64, 64, 64, 64), [S(0), S(0), P, P][:n]),
        spec_of(mesh, (64, 64, 64, 64), [R, S(0), S(0), S(1)][:n]),
    )


def steps_of(plan: Any) -> list[Any]:
    return [(s.mesh_dim, (s.src, s.dst), s.logical_shape) for s in plan.steps]


def torch_steps(src: Any, dst: Any) -> list[Any]:
    infos = _torch.torch_gen_transform_infos_non_cached(src, dst)
    return [(i.mesh_dim, i.src_dst_placements, i.logical_shape) for i in infos]


@pytest.mark.parametrize("ndim", [1, 2, 3, 4], ids=lambda n: f"{n}D")
@pytest.mark.parametrize("who", ["torch", "shardprop"])
def test_greedy_plan(who: str, ndim: int, mesh_of: Any, run: Any) -> None:
    src, dst = pair(mesh_of(*MESHES[ndim]))
    group = f"plan greedy {ndim}-D"
    if who == "torch":
        run(lambda: torch_steps(src, dst), 50, group, before=shardprop.clear_caches)
    else:
        plan = run(lambda: torch_planner().plan(src, dst), 200, group)
        assert steps_of(plan) == torch_steps(src, dst)


@pytest.mark.parametrize("ndim", [1, 2, 3, 4], ids=lambda n: f"{n}D")
@pytest.mark.parametrize("who", ["torch", "shardprop"])
def test_graph_plan(who: str, ndim: int, mesh_of: Any, run: Any) -> None:
    """On 4-D with 4 tensor dims this is the worst pair for torch's planner: seconds."""
    mesh = mesh_of(*MESHES[ndim])
    src = spec_of(mesh, (64, 64, 64, 64), [P] * ndim)
    dst = spec_of(mesh, (64, 64, 64, 64), [R] * ndim)
    group = f"plan graph {ndim}-D"
    with use_min_cost_redistribution_plan():
        if who == "torch":
            run(lambda: torch_steps(src, dst), 1 if ndim == 4 else 3, group, shardprop.clear_caches)
        else:
            plan = run(lambda: torch_planner().plan(src, dst), 20, group)
            shardprop.clear_caches()
            assert steps_of(plan) == torch_steps(src, dst)


@pytest.mark.parametrize("ndim", [1, 2, 3, 4], ids=lambda n: f"{n}D")
@pytest.mark.parametrize("who", ["torch", "shardprop"])
def test_greedy_cost(who: str, ndim: int, mesh_of: Any, run: Any) -> None:
    src, dst = pair(mesh_of(*MESHES[ndim]))
    group = f"cost greedy {ndim}-D"
    if who == "torch":
        cost = _torch.torch_redistribute_cost
        run(lambda: cost(src, dst), 50, group, before=shardprop.clear_caches)
    else:
        answer = run(lambda: shardprop.redistribute_cost(src, dst), 200, group)
        assert answer == _torch.torch_redistribute_cost(src, dst)
