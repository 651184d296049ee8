"""Choices of the core are those of least total price, and where they tie, torch's."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement
from torch.distributed.tensor._dtensor_spec import DTensorSpec

import shardprop
from shardprop import ShardingPlaceholder as H
from shardprop._torch import ShardingPlaceholder
from shardprop.cost.cost_model import CostModel, GroupCosts, LinearPrice
from shardprop.metadata import output_meta
from shardprop.model.question import Question
from shardprop.propagation.core_call import Arguments, prepare
from shardprop.rules import torch_registry
from shardprop.rules.rule import RowsRule

from ..custom_ops import ops
from ..narrow import rows_rule
from ..parity import registry
from ..specs import P, R, S, spec_of
from .core import OneModel, total_of
from .decisions import Decision, Rule, choice_fault, chosen, random_decision
from .models import ring_model
from .moved import moved
from .never_worse import compare
from .ranks import flattened
from .search_oracle import Operand, Row, Strategy, best_strategies

aten = torch.ops.aten
SIZES = (2, 4)
MODEL = ring_model(SIZES, devices_per_host=4)


@pytest.fixture
def mesh(process_group: None) -> DeviceMesh:
    return flattened(SIZES, ())


@contextmanager
def optimal(model: CostModel = MODEL, **settings: Any) -> Iterator[None]:
    with shardprop.enabled(policy="optimal", topology=OneModel(model), strict=True, **settings):
        yield


# Random tables of rows ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("mesh_ndim", "count"), [(1, 150), (2, 100), (3, 12)], ids=str)
@pytest.mark.parametrize("weighed", [False, True], ids=["", "weighed"])
def test_random_choices_are_the_cheapest(mesh_ndim: int, count: int, weighed: bool) -> None:
    """In-place ops, uneven shards, memory limits, ties, strategies out of reach; the outputs' later
    price in those that are weighed."""
    for seed in range(count):
        rng = random.Random(f"choice {mesh_ndim} {weighed} {seed}")
        decision = random_decision(rng, mesh_ndim, weighed=weighed)
        fault = choice_fault(decision)
        assert fault is None, f"{seed}: {decision}\n{fault}"


# An all-gather has a price, other collectives have none.
_LINES = (LinearPrice(1.0, 0.0), *(LinearPrice(0.0, 0.0),) * 4)
TIES = CostModel(SIZES, tuple(GroupCosts((m,), _LINES) for m in (0, 1)), 0.0, 0.0)


def tied(mesh: DeviceMesh, table: list[Row], placements: tuple[Placement, ...]) -> Decision:
    operand = spec_of(mesh, (16, 16, 16), placements)
    return Decision(TIES, Rule(table, allow_uneven_sharding=False), (operand,), (16, 16))


def test_of_strategies_of_one_price_the_first_in_torchs_order_is_chosen(mesh: DeviceMesh) -> None:
    """One all-to-all leads to any of them; in torch's order the last mesh dim varies fastest."""
    decision = tied(mesh, [(R, R), (S(2), S(2)), (S(1), S(1))], (S(0), R))
    choice = chosen(decision)
    assert choice is not None and choice.operands == ((S(2), R),)
    assert choice_fault(decision) is None


def test_operands_that_may_stay_do_though_another_strategy_is_as_cheap(mesh: DeviceMesh) -> None:
    decision = tied(mesh, [(S(1), S(1)), (S(0), S(0)), (R, R)], (R, R))
    choice = chosen(decision)
    assert choice is not None and choice.operands == ((R, R),)
    assert choice_fault(decision) is None


def test_a_strategy_that_no_plan_reaches_is_not_chosen(mesh: DeviceMesh) -> None:
    """There is no room to gather all, and then none for anything."""
    specs = (spec_of(mesh, (8, 8), (S(0), S(0))),)
    rule = Rule([(R, R), (S(1), S(1))], allow_uneven_sharding=False)
    decision = Decision(MODEL, rule, specs, (8, 8), memory_limit=256)
    choice = chosen(decision)
    assert choice is not None and choice.operands != ((R, R),)
    assert choice_fault(decision) is None
    tighter = replace(decision, memory_limit=40)
    assert chosen(tighter) is None and choice_fault(tighter) is None


# Real ops -----------------------------------------------------------------------------------------


def rows_of(question: Question, rule: Any) -> tuple[list[Row], int]:
    """The rows of torch's rule written out, and how many of each are outputs.

    Replicating all is always one, and the first. What may be cut may be a plain shard.
    """
    seen = Arguments(question, rule)
    given = seen.rows()
    outputs = prepare(question, rule, given, seen).outputs
    rows = [
        tuple(S(cell.dim) if isinstance(cell, ShardingPlaceholder) else cell for cell in row)
        for row in given
    ]
    width = outputs + len(question.operands)
    return [(R,) * width, *rows], outputs


def question_about(op: Any, *args: Any, **kwargs: Any) -> tuple[Question, RowsRule]:
    rule = rows_rule(op)
    schema = torch_registry.op_schema(op, args, kwargs)
    return rule.question(schema, output_meta(schema)), rule


def layouts(tensor_ndim: int) -> list[tuple[Placement, ...]]:
    values: list[Placement] = [R, P, *map(S, range(tensor_ndim))]
    return list(itertools.product(values, repeat=len(SIZES)))


CALLS = {
    "mm": (aten.mm.default, ((16, 32), (32, 64))),
    "addmm": (aten.addmm.default, ((64,), (16, 32), (32, 64))),
    "add": (aten.add.Tensor, ((16, 32), (32,))),
    "mul": (aten.mul.Tensor, ((16, 1), (16, 32))),
    "add_": (aten.add_.Tensor, ((16, 32), (16, 32))),
    "gelu": (aten.gelu.default, ((16, 9),)),
    "bmm": (aten.bmm.default, ((8, 16, 4), (8, 4, 24))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_operands_of_an_op_are_brought_together_at_the_least_price(
    mesh: DeviceMesh, name: str
) -> None:
    op, shapes = CALLS[name]
    rng = random.Random(name)
    for _ in range(10):
        specs = [spec_of(mesh, shape, rng.choice(layouts(len(shape)))) for shape in shapes]
        rows, outputs = rows_of(*question_about(op, *specs))
        operands = [Operand.of_spec(spec) for spec in specs]
        in_place, uneven = name == "add_", rows_rule(op).allow_uneven_sharding
        best = best_strategies(rows, operands, MODEL, in_place=in_place, allow_uneven=uneven)
        with optimal():
            if best is None:
                with pytest.raises(shardprop.ShardpropError):
                    shardprop.propagate(op, *specs)
                continue
            decision = shardprop.propagate(op, *specs)
        assert sum(round(1e6 * cost) for cost in decision.operand_costs) == best.cost_ps
        assert (*decision.outputs[:outputs], *decision.operands) in best.strategies


def test_what_is_moved_costs_what_the_decision_said(mesh: DeviceMesh) -> None:
    """The plans are found by another search than the choice."""
    specs = [spec_of(mesh, (16, 32), (P, S(1))), spec_of(mesh, (32, 64), (S(1), S(0)))]
    with optimal():
        decision = shardprop.propagate(aten.mm.default, *specs)
        schema = torch_registry.op_schema(aten.mm.default, tuple(specs), {})
        plans = [shardprop.plan(*pair) for pair in moved(schema, decision.sharding)]
    assert plans
    paid = sum(total_of(plan.steps).cost_ps for plan in plans)
    assert paid == sum(round(1e6 * cost) for cost in decision.operand_costs)


def test_what_the_consumer_wants_decides_between_strategies(mesh: DeviceMesh) -> None:
    """To cut the right side and leave a pending sum is free now, and dear later."""
    specs = [spec_of(mesh, (64, 64), (S(1), R)), spec_of(mesh, (64, 64), (R, R))]
    rows, _ = rows_of(*question_about(aten.mm.default, *specs))
    wanted = spec_of(mesh, (64, 64), (R, R))
    with optimal():
        now = shardprop.propagate(aten.mm.default, *specs)
        later = shardprop.propagate_toward([wanted], aten.mm.default, *specs)
        nearest = shardprop.propagate_toward([None], aten.mm.default, *specs)
    assert now.cost == 0 and now.outputs[0] is not None and P in now.outputs[0]
    for decision, consumer in ((later, wanted), (nearest, None)):
        probe = Decision(MODEL, Rule(rows, False), tuple(specs), (64, 64), consumer=consumer)
        probe = replace(probe, weight=1.0)
        choice = chosen(probe)
        assert choice is not None and choice_fault(probe) is None
        assert (decision.outputs, decision.operands) == (choice.outputs, choice.operands)
        assert decision.output_cost == choice.output_cost
        assert decision.cost > 0 and decision.outputs[0] is not None
        assert P not in decision.outputs[0]


def test_an_operand_that_is_written_stays(mesh: DeviceMesh) -> None:
    stays = spec_of(mesh, (16, 16), (S(0), R))
    other = spec_of(mesh, (16, 16), (R, S(1)))
    with optimal():
        decision = shardprop.propagate(aten.add_.Tensor, stays, other)
    assert decision.operands == ((S(0), R), (S(0), R)) and decision.outputs[0] == (S(0), R)


def test_what_is_written_by_out_stays(mesh: DeviceMesh) -> None:
    terms = [spec_of(mesh, (16, 16), p) for p in ((S(0), R), (S(0), R))]
    out = spec_of(mesh, (16, 16), (R, S(1)))
    with optimal():
        decision = shardprop.propagate(aten.add.out, *terms, out=out)
    assert decision.outputs[0] == (R, S(1))
    assert decision.operands == ((R, S(1)),) * 3
    for cost, spec in zip(decision.operand_costs, [*terms, out], strict=True):
        plan = shardprop.plan(spec, out, topology=OneModel(MODEL))
        assert cost == pytest.approx(plan.cost_us, rel=1e-9)


def test_an_operand_that_may_live_elsewhere_is_not_moved(process_group: None) -> None:
    """torch's fused optimisers take their step counts from another mesh."""
    mesh, other = flattened(SIZES, ()), flattened((8,), ())
    tensors = [[spec_of(mesh, (16, 16), (S(0), R))] for _ in range(4)]
    steps = [spec_of(other, (), (R,))]
    schema = torch_registry.op_schema(
        aten._fused_adam_.default,
        (*tensors, [], steps),
        {
            "lr": 0.1,
            "beta1": 0.9,
            "beta2": 0.99,
            "weight_decay": 0.0,
            "eps": 1e-8,
            "amsgrad": False,
            "maximize": False,
        },
    )
    with optimal():
        answer = shardprop._torch.propagator().propagate_op_sharding_non_cached(schema)
    assert moved(schema, answer) == []


def test_asks_of_registered_rows_hold(mesh: DeviceMesh) -> None:
    """Against all strategies but those that leave a rank too little, or not all as much."""
    with shardprop.temporary_rules():

        @shardprop.register_single_dim_rule(ops.mix.default)
        def _(*_: Any) -> list[list[Any]]:
            return [[H(0, min_local=8)] * 3, [H(1, even=True)] * 3]

        for shape in ((16, 16), (64, 9), (32, 12)):
            operands = [spec_of(mesh, shape, p) for p in ((S(0), S(1)), (S(1), S(0)))]
            with optimal():
                decision = shardprop.propagate(ops.mix.default, *operands)
            best = best_strategies(
                [(R,) * 3, (S(0),) * 3, (S(1),) * 3],
                [Operand.of_spec(spec) for spec in operands],
                MODEL,
                later=partial(_free_if_as_asked, shape),
            )
            assert best is not None
            assert (*decision.outputs, *decision.operands) in best.strategies
            assert sum(round(1e6 * cost) for cost in decision.operand_costs) == best.cost_ps


def _free_if_as_asked(shape: tuple[int, ...], strategy: Strategy) -> tuple[int, int] | None:
    return (0, 0) if _as_asked(shape, strategy) else None


def _as_asked(shape: tuple[int, ...], strategy: Strategy) -> bool:
    placements = strategy[0]
    assert placements is not None
    pieces = [_pieces(placements, dim) for dim in (0, 1)]
    return (pieces[0] == 1 or shape[0] // pieces[0] >= 8) and shape[1] % pieces[1] == 0


def _pieces(placements: tuple[Placement, ...], dim: int) -> int:
    return math.prod(n for p, n in zip(placements, SIZES, strict=True) if p == S(dim))


def test_elements_of_lists_are_decided_each_at_its_least_price(mesh: DeviceMesh) -> None:
    rng = random.Random(2)
    left, right = (
        [spec_of(mesh, (16, 8), rng.choice(layouts(2))) for _ in range(6)] for _ in range(2)
    )
    schema = torch_registry.op_schema(aten._foreach_mul.List, (left, right), {})
    with optimal():
        answer = shardprop._torch.propagator().propagate_op_sharding_non_cached(schema)
        for index in range(6):
            pair = left[index], right[index]
            alone = shardprop.propagate(aten.mul.Tensor, *pair)
            wanted = answer.redistribute_schema or schema
            paid = sum(_price(a, b[index]) for a, b in zip(pair, wanted.args_schema, strict=True))
            assert paid == round(1e6 * alone.cost)


def _price(source: DTensorSpec, target: DTensorSpec) -> int:
    return total_of(shardprop.plan(source, target, topology=OneModel(MODEL)).steps).cost_ps


@pytest.mark.slow
@pytest.mark.parametrize("rule", [registry.Rule.FULL_MESH, registry.Rule.DECOMPOSITION], ids=str)
def test_ops_without_a_table_of_rows_choose_by_our_prices(
    process_group: None, rule: registry.Rule
) -> None:
    """Rules of ours, torch's own functions and decompositions: torch's choice is none cheaper."""
    priced = 0
    for _, compared in compare(4, 300, ["h100-nvlink"], rule):
        if isinstance(compared.ours, int) and isinstance(compared.torchs, int):
            assert compared.ours <= compared.torchs, compared
            priced += compared.torchs > 0
    assert priced > 5
