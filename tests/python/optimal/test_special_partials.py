"""Pending norms and masks of indices under policy ``optimal``: tables and gradients stay where they
are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.placement_types import _MaskPartial

import shardprop

from ..narrow import sharded
from ..specs import R, S, spec_of
from .enabled import TOPOLOGY, dtensor, fresh_mesh

MeshOf = Callable[..., DeviceMesh]
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    shardprop.reset_stats()
    with shardprop.enabled(policy="optimal", topology=TOPOLOGY, strict=True):
        yield


def test_a_table_that_is_cut_over_its_rows_stays_so(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 4)
    table = spec_of(mesh, (32000, 4096), [R, S(0)])
    indices = spec_of(mesh, (8, 512), [S(0), R], dtype=torch.int64)
    decided = shardprop.propagate(aten.embedding.default, table, indices)
    assert decided.operands[0] == tuple(table.placements)
    assert decided.operand_costs[0] == 0
    (output,) = decided.outputs
    assert output is not None and output[0] == S(0) and type(output[1]) is _MaskPartial
    assert decided.operands[1] == output


def test_masks_are_made_after_all_other_moves(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 4)
    masks = _MaskPartial(offset_shape=torch.Size((32, 4)), offset_dim=0)
    src = spec_of(mesh, (8, 512), [R, S(0)], dtype=torch.int64)
    dst = spec_of(mesh, (8, 512), [masks, R], dtype=torch.int64)
    plan = shardprop.plan(src, dst)
    assert [(step.kind, step.mesh_dims) for step in plan.steps] == [
        ("all_gather", (1,)),
        ("partition", (0,)),
    ]


def test_what_is_masked_is_not_masked_a_second_time(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 4)
    masks = _MaskPartial(offset_shape=torch.Size((32, 4)), offset_dim=0)
    src, dst = (spec_of(mesh, (8, 4), [p, masks]) for p in (S(0), R))
    with pytest.raises(
        shardprop.ShardpropError, match="masks only where it was so from the start, and once"
    ):
        shardprop.plan(src, dst)


@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, float("inf")])
def test_clipping_stays_inside_the_policy(foreach: bool, order: float) -> None:
    mesh = fresh_mesh(2, 4)
    parameters = []
    for placements in ([S(0), S(1)], [R, S(0)], [R, R]):
        parameter = nn.Parameter(dtensor(mesh, (8, 8), placements))
        parameter.grad = dtensor(mesh, (8, 8), placements)
        parameters.append(parameter)
    norm = nn.utils.clip_grad_norm_(parameters, 1.0, norm_type=order, foreach=foreach)
    assert sharded(norm).full_tensor().isfinite()
    stats = shardprop.stats()
    assert stats.policy_fallbacks == stats.fallbacks == {}
