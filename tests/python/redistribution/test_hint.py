"""What flattened meshes would save a plan: what it costs once they are there."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh

import shardprop
from shardprop import _torch

from ..optimal.enabled import dtensor, fresh_mesh
from ..specs import P, R, S, spec_of

MeshOf = Callable[..., DeviceMesh]
SHAPE = (4096, 4096)
TOPOLOGY = "h100-nvlink"


def test_a_hint_is_what_comes_of_following_it() -> None:
    mesh = fresh_mesh(8, 8)
    names = mesh.mesh_dim_names
    assert names is not None
    src, dst = spec_of(mesh, SHAPE, [S(0), S(0)]), spec_of(mesh, SHAPE, [R, R])
    before = shardprop.plan(src, dst, topology=TOPOLOGY)
    hint = before.hint
    assert hint is not None and hint.groups
    for group in hint.groups:
        _torch.flatten_dims(mesh, group)
    after = shardprop.plan(src, dst, topology=TOPOLOGY)
    assert after.cost_us == pytest.approx(hint.cost_us)
    assert after.collectives == hint.collectives
    assert before.cost_us - after.cost_us == pytest.approx(hint.saved_us)
    assert hint.saved_us > 0
    asked = ", ".join(repr(names[dim]) for dim in hint.groups[0])
    assert f"with mesh[{asked}]._flatten()" in str(before)
    assert "_flatten" not in str(after)


def test_what_cannot_be_cheaper_has_no_hint(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4)
    one = shardprop.plan(spec_of(mesh, SHAPE, [S(0)]), spec_of(mesh, SHAPE, [R]), topology=TOPOLOGY)
    two_dims = fresh_mesh(2, 4)
    ends = spec_of(two_dims, SHAPE, [S(0), R]), spec_of(two_dims, SHAPE, [R, R])
    assert one.hint is shardprop.plan(*ends, topology=TOPOLOGY).hint is None
    assert shardprop.plan(*ends, policy="torch").hint is None


def test_a_mesh_without_names_is_told_that_it_needs_them(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 4)
    assert mesh.mesh_dim_names is None
    plan = shardprop.plan(
        spec_of(mesh, SHAPE, [P, P]), spec_of(mesh, SHAPE, [R, R]), topology=TOPOLOGY
    )
    assert plan.hint is not None
    assert "process group of mesh dims (0, 1) (give the mesh mesh_dim_names)" in str(plan)


def test_a_copy_of_a_plan_gives_it() -> None:
    mesh = fresh_mesh(8, 8)
    ends = spec_of(mesh, SHAPE, [S(0), S(0)]), spec_of(mesh, SHAPE, [R, R])
    plan = shardprop.plan(*ends, topology=TOPOLOGY)
    for made in (copy.deepcopy(plan), pickle.loads(pickle.dumps(plan))):
        assert made == plan
        assert made.hint == plan.hint is not None
    assert plan.planner is not None


def test_explanations_and_traces_give_it() -> None:
    x = dtensor(fresh_mesh(8, 8), (64, 4096), [S(0), S(0)])
    optimal = shardprop.enabled(policy="optimal", topology=TOPOLOGY)
    with optimal, shardprop.trace() as traced:
        x.softmax(0)
        op = torch.ops.aten._softmax.default
        explained = str(shardprop.explain(op, _torch.spec_of(x), 0, False))
    assert "_flatten()" in str(traced)
    assert "_flatten()" in explained
