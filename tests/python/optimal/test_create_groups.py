"""Process groups that a planner opens: when, under which names, and when not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh

import shardprop
from shardprop import ShardpropError, _torch
from shardprop.redistribution.group_creation import create_groups

from ..narrow import sharded
from ..specs import R, S, spec_of
from .enabled import TOPOLOGY, dtensor, fresh_mesh


@pytest.fixture(autouse=True)
def creating() -> Iterator[None]:
    with shardprop.enabled(policy="optimal", topology=TOPOLOGY, create_groups=True):
        yield


def collectives(mesh: DeviceMesh) -> int:
    """Of the plan that gathers what all mesh dims cut."""
    ends = [spec_of(mesh, (8, 8), [p] * mesh.ndim) for p in (S(0), R)]
    return shardprop.plan(*ends).collectives


def test_all_groups_are_there_when_a_mesh_is_first_met() -> None:
    mesh = fresh_mesh(2, 2, 2)
    assert collectives(mesh) == 1
    assert set(_torch.flattened_groups(mesh)) == {(0, 1), (0, 2), (1, 2), (0, 1, 2)}


@pytest.mark.parametrize("names", ["abc", None], ids=["named", "unnamed"])
def test_nothing_is_left_to_do_once_a_mesh_was_met(names: str | None) -> None:
    mesh = fresh_mesh(2, 2, 2, names=names)
    with FakeTensorMode():
        assert create_groups(mesh) == (names is None)  # without names nothing can be opened later
    assert create_groups(mesh)
    assert create_groups(mesh)


def test_a_name_that_is_taken_is_passed_over() -> None:
    mesh = fresh_mesh(2, 2, 1, names=("q", "r", "q_r"))
    assert collectives(mesh) == 1
    assert _torch.flattened_groups(mesh) == ((0, 1),)


def test_a_mesh_without_names_does_without() -> None:
    mesh = fresh_mesh(2, 2, names=None)
    assert collectives(mesh) == 2
    assert _torch.flattened_groups(mesh) == ()


def test_none_is_opened_on_fake_tensors_but_later() -> None:
    mesh = fresh_mesh(2, 2)
    with FakeTensorMode():
        x = dtensor(mesh, (2, 8), [S(0), S(0)])
        x.redistribute(placements=[R, R])
    assert _torch.flattened_groups(mesh) == ()
    assert collectives(mesh) == 1


def test_none_is_opened_where_one_process_is_all_ranks_but_later() -> None:
    mesh = fresh_mesh(2, 2)
    with _torch.all_ranks_at_once(4):
        assert collectives(mesh) == 2
    assert collectives(mesh) == 1


def test_what_torch_refuses_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = fresh_mesh(2, 2)

    def refusing(*_: object) -> None:
        raise RuntimeError("no ports left")

    monkeypatch.setattr(_torch, "flatten_dims", refusing)
    with pytest.raises(ShardpropError, match=r"create_groups: .*\(0, 1\).*no ports left") as raised:
        collectives(mesh)
    assert isinstance(raised.value.__cause__, RuntimeError)
    assert collectives(mesh) == 2
    assert sharded(torch.add(dtensor(mesh, (2, 8), [S(0), S(0)]), 1)).placements == (S(0), S(0))
