"""Prices of steps that somebody else planned, and what is said of steps that are no plan."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch.distributed.device_mesh import DeviceMesh

from shardprop import ShardpropError
from shardprop.cost.topology import load_topology
from shardprop.redistribution.optimal_planner import ExactPlanner

from ..specs import R, S, spec_of

MeshOf = Callable[..., DeviceMesh]


def planner() -> ExactPlanner:
    return ExactPlanner(load_topology("h100-nvlink"))


def test_steps_that_lead_to_the_target_are_priced(mesh_of: MeshOf) -> None:
    cut, whole = (spec_of(mesh_of(2, 2), (8, 8), at) for at in ((S(0), S(0)), (R, R)))
    steps = planner().priced(cut, whole, [((1,), R), ((0,), R)])
    assert [(step.kind, step.mesh_dims) for step in steps] == [
        ("all_gather", (1,)),
        ("all_gather", (0,)),
    ]


def test_steps_that_end_in_another_shard_order_are_refused(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 2)
    whole = spec_of(mesh, (8, 8), (R, R))
    reverse = spec_of(mesh, (8, 8), (S(0), S(0)), order=[(0, (1, 0))])
    with pytest.raises(ShardpropError, match=r"Expected steps that lead to the target, got a plan"):
        planner().priced(whole, reverse, [((0,), S(0)), ((1,), S(0))])


def test_a_step_that_moves_wrong_data_is_named(mesh_of: MeshOf) -> None:
    """The outer of two cuts of a tensor dim cannot be undone before the inner one."""
    cut, whole = (spec_of(mesh_of(2, 2), (8, 8), at) for at in ((S(0), S(0)), (R, R)))
    with pytest.raises(
        ShardpropError, match=r"move the right data, got one to R on mesh dims \(0,"
    ):
        planner().priced(cut, whole, [((0,), R), ((1,), R)])
