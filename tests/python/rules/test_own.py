"""Our own rules: what they stand in for, and what they leave to torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial

import shardprop
from shardprop import _core
from shardprop._torch import IS_215_OR_LATER
from shardprop.model.question import question_of
from shardprop.propagation.propagator import current_policy
from shardprop.propagation.route import Who, route_of
from shardprop.rules import torch_registry
from shardprop.rules.own import FAMILIES, Family

from ..narrow import known
from ..specs import SS, P, R, S, spec_of

aten = torch.ops.aten
MeshOf = Callable[..., DeviceMesh]

only_where_the_rule_is_ours = pytest.mark.skipif(
    IS_215_OR_LATER, reason="torch has a single-dim rule of its own for these ops"
)


def test_every_full_mesh_strategy_of_torch_has_a_rule() -> None:
    strategies = DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs
    assert len(strategies) >= 18
    assert [str(op) for op in strategies if route_of(op).who is Who.TORCH] == []


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.module.__name__)
def test_a_family_is_needed_until_torch_has_rules_of_its_own(family: Family) -> None:
    needed = [op for op in family.module.RULES if torch_registry.has_own_full_mesh_strategy(op)]
    is_over = family.until == "2.15" and IS_215_OR_LATER
    assert needed == ([] if is_over else [*family.module.RULES])


def test_a_reduction_leaves_a_partial_where_it_reduces_a_shard(mesh_of: MeshOf) -> None:
    x = spec_of(mesh_of(2, 2), (8, 8), [S(0), S(1)])
    decision = shardprop.propagate(aten.sum.dim_IntList, x, [1])
    assert decision.outputs == ((S(0), P),)
    assert decision.operands == ((S(0), S(1)),)
    assert decision.cost == 0.0


def test_a_mean_over_uneven_shards_is_not_linear(mesh_of: MeshOf) -> None:
    even = shardprop.propagate(aten.mean.dim, spec_of(mesh_of(2), (8, 8), [S(1)]), [1])
    uneven = shardprop.propagate(aten.mean.dim, spec_of(mesh_of(2), (8, 7), [S(1)]), [1])
    assert even.outputs == ((Partial("avg"),),)
    assert uneven.outputs == ((R,),)
    assert uneven.cost > 0.0


def test_strided_shards_follow_without_further_code(mesh_of: MeshOf) -> None:
    x = spec_of(mesh_of(2), (4, 8, 8), [SS(1, 2)], strided_is_order=False)
    decision = shardprop.propagate(aten.select.int, x, 0, 1)
    assert decision.outputs == ((SS(0, 2),),)
    assert decision.operands == ((SS(1, 2),),)


@only_where_the_rule_is_ours
def test_a_factory_takes_over_a_layout_at_torchs_negative_price(mesh_of: MeshOf) -> None:
    x = spec_of(mesh_of(2), (8, 8), [S(0)])
    same = shardprop.propagate(aten.new_zeros.default, x, [8, 8])
    other = shardprop.propagate(aten.new_zeros.default, x, [4, 8])
    assert (same.outputs, same.cost) == (((S(0),),), -0.1)
    assert (other.outputs, other.cost) == (((R,),), 0.0)


@only_where_the_rule_is_ours
@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        (aten.sum.dim_IntList, ("one",)),
        (aten.topk.default, (2, "one")),
        (aten._softmax.default, (None, False)),
    ],
    ids=["reduction", "sort", "softmax"],
)
def test_arguments_that_a_rule_does_not_expect_are_declined(
    mesh_of: MeshOf, op: Any, arguments: tuple[object, ...]
) -> None:
    x = spec_of(mesh_of(2), (8, 8), [S(0)])
    # The op itself would refuse them while torch computes the metadata.
    question = question_of(torch_registry.op_schema(op, (x, *arguments), {}), x.tensor_meta)
    with pytest.raises(_core.Unsupported, match="arguments that our rule does not expect"):
        known(route_of(op).rule).choose(question, current_policy())
