"""What an op writes into stays where it is, or the call is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, distribute_tensor

import shardprop
from shardprop import _torch
from shardprop.corrections.written_and_moved import WRITTEN_AND_MOVED

from ..narrow import sharded
from ..specs import R, S, spec_of

MeshOf = Callable[..., DeviceMesh]
aten = torch.ops.aten


@pytest.mark.parametrize(
    ("op", "shapes", "placements", "left"),
    [
        (aten.addmv_.default, [(6,), (6, 12), (12,)], [R, S(0), R], [R, R, R]),
        (aten.floor_divide_.Tensor, [(6,), (6,)], [R, S(0)], [R, R]),
        (aten.floor_divide_.Tensor, [(6,), (6,)], [S(0), R], [S(0), S(0)]),
    ],
    ids=str,
)
def test_an_in_place_op_that_is_decomposed_leaves_its_operand(
    mesh_of: MeshOf, op: Any, shapes: Any, placements: list[Placement], left: list[Placement]
) -> None:
    pairs = zip(shapes, placements, strict=True)
    specs = [spec_of(mesh_of(2), shape, [p], dtype=torch.int64) for shape, p in pairs]
    with shardprop.enabled():
        shardprop.reset_stats()
        found = shardprop.propagate(op, *specs)
    assert found.outputs == ((left[0],),)
    assert found.operands == tuple((p,) for p in left)


@pytest.mark.parametrize("pending", ["sum", "avg"])
def test_what_cannot_stay_is_refused(mesh_of: MeshOf, pending: str) -> None:
    x = DTensor.from_local(torch.ones(4, 4), mesh_of(2), [Partial(pending)], run_check=False)
    with shardprop.enabled(), pytest.raises(RuntimeError, match="writes into a copy"):
        torch.nn.functional.hardswish(x, inplace=True)


def test_running_statistics_are_updated(mesh_of: MeshOf) -> None:
    """Where the channels of the input are sharded, too."""
    x = torch.arange(24.0).reshape(2, 4, 3)
    right = torch.zeros(4)
    torch.nn.functional.batch_norm(x, right, torch.ones(4), training=True)
    mesh = mesh_of(2)
    with _torch.all_ranks_at_once(2), shardprop.enabled():
        placed = distribute_tensor(x, mesh, [S(1)], src_data_rank=None)
        mean, variance = (
            distribute_tensor(each, mesh, [R], src_data_rank=None)
            for each in (torch.zeros(4), torch.ones(4))
        )
        torch.nn.functional.batch_norm(placed, mean, variance, training=True)
        held = _torch.tensors_of_ranks(sharded(mean).to_local(), 2)
    assert [each.tolist() for each in held] == [right.tolist()] * 2


@pytest.mark.parametrize(
    ("placements", "counted"), [((R, S(0)), 1), ((S(0), S(0)), 0), ((S(0), R), 0)], ids=str
)
def test_it_is_counted_where_torch_would_move_what_is_written(
    mesh_of: MeshOf, placements: tuple[Placement, Placement], counted: int
) -> None:
    x, y = (
        distribute_tensor(torch.full((4,), 6), mesh_of(2), [p], src_data_rank=None)
        for p in placements
    )
    with shardprop.enabled():
        shardprop.reset_stats()
        aten.floor_divide_.Tensor(x, y)
        corrections = shardprop.stats().corrections
    assert corrections == ({WRITTEN_AND_MOVED.name: 1} if counted else {})
    assert sharded(x).placements == placements[:1]
