"""Integers and flags that become a pending sum keep their dtype, and every digit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor._redistribute import redistribute_local_tensor

import shardprop
from shardprop import _torch
from shardprop._torch import make_spec, meta_of
from shardprop.corrections.integers_made_pending import INTEGERS_MADE_PENDING

from ..specs import P, R

MeshOf = Callable[..., DeviceMesh]
LARGE = 2**24 + 1


def made_pending(mesh: DeviceMesh, whole: torch.Tensor) -> list[torch.Tensor]:
    """What the ranks hold, as where an op has its operands redistributed: a program itself may not
    ask for a Partial."""
    ranks = mesh.size()
    src, dst = (make_spec(mesh, (p,), meta_of(whole)) for p in (R, P))
    local = _torch.as_one_tensor([whole.clone() for _ in range(ranks)])
    return _torch.tensors_of_ranks(redistribute_local_tensor(local, src, dst), ranks)


@pytest.mark.parametrize("whole", [torch.tensor([LARGE, -3]), torch.tensor([True, False])], ids=str)
def test_the_first_rank_keeps_them(mesh_of: MeshOf, whole: torch.Tensor) -> None:
    mesh = mesh_of(3)
    with _torch.all_ranks_at_once(3), shardprop.enabled():
        shardprop.reset_stats()
        held = made_pending(mesh, whole)
        counted = shardprop.stats().corrections
    nothing = torch.zeros_like(whole).tolist()
    assert [each.tolist() for each in held] == [whole.tolist(), nothing, nothing]
    assert {each.dtype for each in held} == {whole.dtype}
    assert counted == {INTEGERS_MADE_PENDING.name: 1}


@pytest.mark.parametrize("corrections", [True, False])
def test_floats_are_divided_as_torch_does(mesh_of: MeshOf, corrections: bool) -> None:
    mesh, whole = mesh_of(3), torch.tensor([1.0, 2.0])
    with _torch.all_ranks_at_once(3), shardprop.enabled(corrections=corrections):
        shardprop.reset_stats()
        held = made_pending(mesh, whole)
        assert shardprop.stats().corrections == {}
    assert [each.tolist() for each in held] == [(whole / 3).tolist()] * 3


def test_without_corrections_it_is_torchs_own(mesh_of: MeshOf) -> None:
    mesh = mesh_of(3)
    with _torch.all_ranks_at_once(3), shardprop.enabled(corrections=False):
        held = made_pending(mesh, torch.tensor([LARGE]))
    assert {each.dtype for each in held} == {torch.float32}
