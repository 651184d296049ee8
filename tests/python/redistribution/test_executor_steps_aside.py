"""Where torch's own code carries out a redistribution, though shardprop is on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, _redistribute
from torch.distributed.tensor.debug import CommDebugMode

import shardprop
from shardprop import _torch
from shardprop.redistribution.moves import Move

from ..specs import R, S

MeshOf = Callable[..., DeviceMesh]
METHODS = ("redistribute", "full_tensor")


def rows(mesh: DeviceMesh) -> DTensor:
    return DTensor.from_local(torch.ones(2, 4), mesh, [S(0)], run_check=False)


@pytest.fixture
def runs() -> Iterator[mock.Mock]:
    """Called for each move that the executor carries out."""
    with mock.patch.object(Move, "run", autospec=True, side_effect=Move.run) as counted:
        yield counted


def are_torchs() -> bool:
    methods = all(vars(DTensor)[name] is _torch.torchs_methods[name] for name in METHODS)
    return methods and _torch.installed_redistribute() is _torch.torch_redistribute


def test_it_goes_with_shardprop_and_when_it_is_not_wanted() -> None:
    assert are_torchs()
    with shardprop.enabled():
        assert not are_torchs()
        with shardprop.enabled(executor=False):
            assert are_torchs()
        with shardprop.enabled(policy="optimal", topology="torch", executor=False):
            assert vars(DTensor)["redistribute"] is _torch.torchs_methods["redistribute"]
        assert not are_torchs()
    assert are_torchs()


def test_explanations_leave_it_in_place(mesh_of: MeshOf) -> None:
    with shardprop.enabled():
        shardprop.explain(torch.relu, rows(mesh_of(4)))
        assert not are_torchs()


def test_a_method_that_somebody_else_put_there_stays() -> None:
    def theirs(self: DTensor) -> torch.Tensor:
        return self.to_local()

    with mock.patch.object(DTensor, "full_tensor", theirs):
        with shardprop.enabled():
            assert vars(DTensor)["full_tensor"] is theirs
        assert vars(DTensor)["full_tensor"] is theirs


def test_a_function_that_somebody_else_put_there_stays() -> None:
    def theirs(local: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        return local

    with mock.patch.object(_redistribute, "redistribute_local_tensor", theirs):
        with shardprop.enabled():
            assert vars(_redistribute)["redistribute_local_tensor"] is theirs
        assert vars(_redistribute)["redistribute_local_tensor"] is theirs


def test_options_that_torch_does_not_know_are_refused(mesh_of: MeshOf) -> None:
    unknown: dict[str, Any] = {"placement": None}
    with shardprop.enabled():
        for method in (DTensor.redistribute, DTensor.full_tensor):
            with pytest.raises(TypeError, match="unexpected keyword"):
                method(rows(mesh_of(4)), **unknown)


def test_moves_are_made_once(mesh_of: MeshOf, runs: mock.Mock) -> None:
    x = rows(mesh_of(4))
    with (
        shardprop.enabled(),
        mock.patch.object(_torch, "local_steps", side_effect=_torch.local_steps) as made,
    ):
        for _ in range(3):
            x.redistribute(placements=[R])
            x.redistribute(placements=[S(-1)])
            x.full_tensor()
            rows(x.device_mesh).redistribute(placements=[R])  # another spec that says the same
    assert runs.call_count == 12
    assert made.call_count == 2


def test_who_looks_on_sees_what_torch_does(mesh_of: MeshOf, runs: mock.Mock) -> None:
    x = rows(mesh_of(4))
    with shardprop.enabled():
        x.full_tensor()
        runs.reset_mock()
        with CommDebugMode() as seen:
            x.full_tensor()
        assert seen.get_total_counts() == 1
        with torch.profiler.profile():
            x.full_tensor()
        with shardprop.trace():
            x.full_tensor()
    assert not runs.called


def test_what_torch_refuses_is_refused_each_time(mesh_of: MeshOf) -> None:
    x = rows(mesh_of(4))
    with shardprop.enabled():
        for _ in range(2):
            with pytest.raises(RuntimeError, match="Can not redistribute from"):
                x.redistribute(placements=[Partial("max")])
            with pytest.raises(RuntimeError, match="placements is needed"):
                x.redistribute()


@pytest.mark.parametrize("async_op", [False, True])
def test_a_shard_of_no_dim_is_refused_by_torch(mesh_of: MeshOf, async_op: bool) -> None:
    def refused() -> str:
        x = DTensor.from_local(torch.zeros(()), mesh_of(4), [R])
        with pytest.raises(Exception, match=r"[Ss]hard") as raised:
            x.redistribute(placements=[S(-1)], async_op=async_op)
        return f"{raised.type.__name__}: {raised.value}"

    expected = refused()
    with shardprop.enabled():
        assert refused() == expected


def test_caches_are_bounded_and_counted(mesh_of: MeshOf) -> None:
    with shardprop.enabled():
        shardprop.clear_caches()
        rows(mesh_of(4)).full_tensor()
        held = shardprop.stats().caches
        assert held["moves"].entries == held["specs with moves"].entries == 1
        assert held["moves"].bytes > 0
        shardprop.clear_caches()
        assert shardprop.stats().caches["moves"].entries == 0
