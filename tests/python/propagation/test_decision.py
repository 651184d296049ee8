"""What a decision costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.experimental import register_sharding

import shardprop

from ..specs import P, S, spec_of

aten = torch.ops.aten


@pytest.fixture
def torchs_own() -> Iterator[Any]:
    """An op of two tensors, for which the program gave torch a strategy: both cut into rows."""
    strategies = DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs
    with torch.library._scoped_library("shardprop_decision", "DEF") as library:
        library.define("join(Tensor x, Tensor y) -> Tensor")
        torch.library.register_fake(
            "shardprop_decision::join", lambda x, y: torch.empty_like(x), lib=library
        )
        op = torch.ops.shardprop_decision.join.default
        register_sharding(op)(lambda x, y: [([S(0)], [S(0), S(0)])])
        yield op
        del strategies[op]


def test_an_operand_that_stays_is_free_and_one_that_moves_has_its_price(
    mesh_of: Callable[..., DeviceMesh], torchs_own: Any
) -> None:
    rows, columns = (spec_of(mesh_of(4), (64, 64), [S(dim)]) for dim in (0, 1))
    price = shardprop.redistribute_cost(columns, rows)
    assert price > 0.0
    found = shardprop.propagate(torchs_own, rows, columns)
    assert found.who == "torch"
    assert found.operands == ((S(0),), (S(0),))
    assert found.operand_costs == (0.0, price) and found.cost == price
    explained = shardprop.explain(torchs_own, rows, columns).decision
    assert explained.candidates[0].operand_us == (0.0, price)


@pytest.mark.parametrize(
    ("op", "arguments"),
    [(aten.relu.default, ()), (aten._softmax.default, (0, False))],
    ids=["by rows", "following its operand"],
)
def test_outputs_cost_nothing_later_unless_they_are_weighed(
    mesh_of: Callable[..., DeviceMesh], op: Any, arguments: tuple[Any, ...]
) -> None:
    found = shardprop.propagate(op, spec_of(mesh_of(4), (64, 64), [S(0)]), *arguments)
    assert found.who == "core"
    assert found.output_cost == 0.0


def test_a_number_that_is_read_out_costs_nothing(mesh_of: Callable[..., DeviceMesh]) -> None:
    pending = spec_of(mesh_of(4), (), [P])
    found = shardprop.propagate(aten._local_scalar_dense.default, pending)
    assert (found.who, found.operands) == ("read-out", ((P,),))
    assert found.operand_costs == (0.0,) and found.cost == 0.0


@pytest.mark.parametrize(
    ("op", "operands", "who", "why"),
    [
        (aten.relu.default, 1, "core", "The core decides by a rule: "),
        (
            aten.mse_loss.default,
            2,
            "decomposition",
            "The core decides by the rows of its decomposi",
        ),
    ],
    ids=["rule", "decomposition"],
)
def test_a_decision_says_why_it_is_whose(
    mesh_of: Callable[..., DeviceMesh], op: Any, operands: int, who: str, why: str
) -> None:
    x = spec_of(mesh_of(4), (64, 64), [S(0)])
    found = shardprop.propagate(op, *[x] * operands)
    assert found.who == who and found.why.startswith(why)
