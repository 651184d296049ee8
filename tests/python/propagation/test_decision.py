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

from ..specs import S, spec_of

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
