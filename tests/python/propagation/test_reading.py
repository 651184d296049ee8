"""Numbers that are read out of tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement

import shardprop
from shardprop.errors import RefusedPlacementError

from ..specs import P, R, S

MeshOf = Callable[..., DeviceMesh]


def one_number(mesh: DeviceMesh, *placements: Placement) -> DTensor:
    value = torch.tensor([3.0])
    return DTensor.from_local(
        value, mesh, placements, run_check=False, shape=torch.Size([1]), stride=(1,)
    )


@pytest.mark.parametrize("placement", [P, Partial("max"), Partial("avg")], ids=str)
def test_a_part_of_a_pending_number_is_told_of(mesh_of: MeshOf, placement: Placement) -> None:
    x = one_number(mesh_of(1, 2), R, placement)
    with shardprop.enabled():
        with pytest.warns(UserWarning, match="on mesh dim 1 .*full_tensor") as caught:
            assert x.item() == 3.0
        assert [each.filename for each in caught] == [__file__]


@pytest.mark.parametrize("placements", [(R, R), (P, R), (S(0), R)], ids=str)
def test_the_number_itself_is_read_in_silence(
    mesh_of: MeshOf, placements: tuple[Placement, ...]
) -> None:
    x = one_number(mesh_of(1, 2), *placements)
    with shardprop.enabled(), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert x.item() == 3.0


def test_a_number_that_is_read_counts_as_one_decision(mesh_of: MeshOf) -> None:
    x = one_number(mesh_of(1, 2), R, R)
    with shardprop.enabled():
        shardprop.reset_stats()
        x.item()
        found = shardprop.stats()
    assert (found.decisions, found.strided_operands) == (1, 0)
    assert not (found.delegated or found.fallbacks or found.refused)


def test_what_one_rank_alone_holds_is_refused_on_all(mesh_of: MeshOf) -> None:
    x = one_number(mesh_of(1, 2), R, S(0))
    with (
        shardprop.enabled(),
        pytest.raises(RuntimeError, match=r"all ranks hold, got .* mesh dim 1"),
    ):
        x.item()


def test_a_query_refuses_what_the_run_refuses(mesh_of: MeshOf) -> None:
    x = one_number(mesh_of(1, 2), R, S(0))
    with (
        shardprop.enabled(),
        pytest.raises(RefusedPlacementError, match=r"all ranks hold, got .* mesh dim 1"),
    ):
        shardprop.propagate(torch.ops.aten._local_scalar_dense.default, x._spec)


def test_without_corrections_it_is_torchs_own(mesh_of: MeshOf) -> None:
    with shardprop.enabled(corrections=False), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert one_number(mesh_of(2), P).item() == 3.0
        assert one_number(mesh_of(2), S(0)).item() == 3.0
