"""Ops that follow their operands: what the ways to run one cost, and what it gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement, distribute_tensor

import shardprop
from shardprop import _core
from shardprop.model.question import question_of
from shardprop.propagation.propagator import current_policy
from shardprop.rules import torch_registry
from shardprop.rules.follow_rule import Candidate, FollowRule, candidate_costs

from ..narrow import sharded
from ..specs import SS, R, S, meta_of, spec_of

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
        "equal placements": (spec_of(mesh, (8, 8), both), (S(0), S(0))),
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
        "equal placements": 0.0,
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


def test_an_op_whose_only_operand_is_a_keyword_runs_on_its_mesh(
    mesh_of: Callable[..., DeviceMesh],
) -> None:
    """Keyword arguments are not moved: none of them has a cost."""
    spec = spec_of(mesh_of(4), (8, 8), [S(0)])
    schema = torch_registry.op_schema(torch.ops.aten.full.out, ([8, 8], 1.0), {"out": spec})
    rule = FollowRule(lambda question: Candidate((spec.placements,), ()))
    choice = rule.choose(question_of(schema, meta_of((8, 8))), current_policy())
    assert choice.mesh is mesh_of(4)
    assert (choice.outputs, choice.operands) == ((spec.placements,), ())
    assert (choice.cost, choice.operand_costs) == (0.0, [])


@pytest.mark.parametrize(
    ("costs", "wanted", "taken"),
    [
        ((0.0, -0.1, 5.0), (S(0), S(1), S(0)), 1),  # what gains something
        ((0.0, 0.0, 0.0), (S(0), S(0), R), 1),  # the last that moves nothing
        ((0.0, 0.0, 3.0), (R, S(1), S(0)), 0),  # the first that is free
        ((4.0, 2.0, 2.0), (R, S(1), S(1)), 1),  # the least
    ],
)
def test_torchs_choice_among_candidates(
    mesh_of: Callable[..., DeviceMesh],
    costs: tuple[float, ...],
    wanted: tuple[Placement, ...],
    taken: int,
) -> None:
    spec = spec_of(mesh_of(4), (8, 8), [S(0)])
    candidates = [
        Candidate(((S(index),),), ((placement,),), costs=(cost,))
        for index, (cost, placement) in enumerate(zip(costs, wanted, strict=True))
    ]
    schema = torch_registry.op_schema(torch.ops.aten.relu.default, (spec,), {})
    rule = FollowRule(lambda question: candidates)
    choice = rule.choose(question_of(schema, meta_of((8, 8))), current_policy())
    assert choice.outputs == ((S(taken),),)
    assert choice.operand_costs == [costs[taken]]
    assert choice.operands == ((wanted[taken],),)


@pytest.mark.parametrize("count", [1, 3])
def test_a_rule_that_places_other_operands_than_the_op_has_declines(
    mesh_of: Callable[..., DeviceMesh], count: int
) -> None:
    spec = spec_of(mesh_of(4), (8, 8), [S(0)])
    schema = torch_registry.op_schema(torch.ops.aten.equal.default, (spec, spec), {})
    rule = FollowRule(lambda question: Candidate((spec.placements,), (spec.placements,) * count))
    with pytest.raises(_core.Unsupported, match="does not expect"):
        rule.choose(question_of(schema, meta_of((8, 8))), current_policy())


def test_a_mesh_that_equals_another_is_the_same(mesh_of: Callable[..., DeviceMesh]) -> None:
    meshes = mesh_of(4), DeviceMesh("cpu", list(range(4)), _init_backend=False)
    specs = [spec_of(mesh, (8, 8), [S(0)]) for mesh in meshes]
    assert meshes[0] is not meshes[1] and meshes[0] == meshes[1]
    schema = torch_registry.op_schema(torch.ops.aten.equal.default, tuple(specs), {})
    rule = FollowRule(lambda question: Candidate(((R,),), ((S(0),), (S(0),))))
    choice = rule.choose(question_of(schema, meta_of((8, 8))), current_policy())
    assert choice.operand_costs == [0.0, 0.0]
