"""Ops that follow their operands: what the ways to run one cost, and what it gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import distribute_tensor

import shardprop
from shardprop.rules.follow_rule import Candidate, candidate_costs

from ..narrow import sharded
from ..specs import SS, R, S, spec_of

REVERSED = [(0, (1, 0))]


def priced(*_: object) -> float:
    return 7.0


@pytest.mark.parametrize("strided_is_order", [True, False])
def test_an_operand_that_is_as_wanted_costs_nothing(
    mesh_of: Callable[..., DeviceMesh], strided_is_order: bool
) -> None:
    mesh = mesh_of(2, 2)
    both, strided = (S(0), S(0)), (SS(0, 2), S(0))
    wanted = {
        "default order": (spec_of(mesh, (8, 8), both), both),
        "another order": (spec_of(mesh, (8, 8), both, order=REVERSED), both),
        "other placements": (spec_of(mesh, (8, 8), both), (S(0), R)),
        "strided for an order": (spec_of(mesh, (8, 8), strided, strided_is_order=True), strided),
        "strided of a view": (spec_of(mesh, (8, 8), strided, strided_is_order=False), strided),
    }
    costs = {}
    for name, (spec, target) in wanted.items():
        candidate = Candidate((target,), (target,), strided_is_order=strided_is_order)
        (costs[name],) = candidate_costs(candidate, [spec], priced)
    assert costs == {
        "default order": 0.0,
        "another order": 7.0,
        "other placements": 7.0,
        "strided for an order": 0.0 if strided_is_order else 7.0,
        "strided of a view": 7.0 if strided_is_order else 0.0,
    }


def test_a_list_of_one_output_is_a_list(mesh_of: Callable[..., DeviceMesh]) -> None:
    x = distribute_tensor(torch.ones(8, 8), mesh_of(4), [S(1)])
    with shardprop.enabled(strict=True):
        (piece,) = torch.split(x, 8)
    assert sharded(piece).placements == (S(1),)
