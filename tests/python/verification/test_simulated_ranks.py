"""Simulated ranks leave a GPU alone: a process that has started CUDA cannot fork those that try
ops."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import distribute_tensor

from shardprop import _torch

from ..narrow import per_rank, sharded
from ..specs import S


def test_nothing_asks_for_an_accelerator(
    mesh_of: Callable[..., DeviceMesh], monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = mesh_of(2)

    def asked() -> bool:
        raise AssertionError("torch.accelerator is asked for")

    monkeypatch.setattr(torch.accelerator, "is_available", asked)
    with _torch.all_ranks_at_once(2):
        x = distribute_tensor(torch.ones(4, 3), mesh, [S(0)])
        doubled = per_rank(sharded(F.dropout(x, 0.0) * 2).full_tensor())
    assert torch.equal(doubled.reconcile(), torch.full((4, 3), 2.0))


def test_random_numbers_are_those_of_one_device(mesh_of: Callable[..., DeviceMesh]) -> None:
    """And the generator is left where one op leaves it, not where one for each rank does."""
    torch.manual_seed(3)
    with _torch.all_ranks_at_once(2):
        per_rank(distribute_tensor(torch.ones(4), mesh_of(2), [S(0)]).to_local()).uniform_()
    state = torch.get_rng_state()
    torch.manual_seed(3)
    torch.ones(2).uniform_()
    assert torch.equal(torch.get_rng_state(), state)
