"""An operand whose shards are in another order than strategies want is moved, not only priced."""

from __future__ import annotations

import pytest
import torch
from torch.distributed.tensor import Placement, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard

import shardprop
from shardprop.model.plan_steps import Layout
from shardprop.verification.validate.plans import check_plan

from .layouts import spec_of_layout
from .ranks import flattened


def test_shards_in_another_order_are_put_in_order() -> None:
    mesh = flattened((2, 2), ())
    twisted = Layout((Shard(0), Shard(0)), ((0, (1, 0)),))
    x = spec_of_layout(mesh, (8, 8), twisted, torch.float32)
    with shardprop.enabled(policy="optimal", topology="torch"):
        decision = shardprop.propagate(torch.ops.aten.gelu.default, x)
        assert decision.sharding.needs_redistribute
        schema = decision.sharding.redistribute_schema
        assert schema is not None
        wanted = schema.args_spec[0]
        assert decision.cost == shardprop.plan(x, wanted).cost_us > 0
    assert wanted.is_default_device_order(wanted.shard_order)


def test_an_operand_is_moved_though_nothing_but_its_order_is_another() -> None:
    mesh = flattened((2, 2), ())
    rows = (Shard(0), Shard(0))
    twisted, default = (
        spec_of_layout(mesh, (8, 8), Layout(rows, ((0, order),)), torch.float32)
        for order in ((1, 0), (0, 1))
    )
    with shardprop.enabled(policy="optimal", topology="torch"):
        decision = shardprop.propagate(torch.ops.aten.atan2.default, twisted, default)
        price = shardprop.redistribute_cost(twisted, default)
    assert decision.operands == (rows, rows)
    assert decision.operand_costs == (price, 0.0) and price > 0.0
    assert decision.sharding.needs_redistribute
    schema = decision.sharding.redistribute_schema
    assert schema is not None
    assert [spec.shard_order for spec in schema.args_spec] == [default.shard_order] * 2


# As `fully_shard` writes the rows of a tensor-parallel weight: mesh dim 1 has cut them first.
WRITTEN = (_StridedShard(0, split_factor=2), Shard(0))
WHOLE = (Replicate(), Replicate())


@pytest.mark.parametrize("placements", [(WRITTEN, WHOLE), (WHOLE, WRITTEN)], ids=["from", "to"])
@pytest.mark.parametrize("settings", [{}, {"policy": "optimal", "topology": "torch"}], ids=str)
def test_an_order_of_a_size_that_does_not_divide_is_that_order(
    settings: dict[str, str], placements: tuple[tuple[Placement, ...], tuple[Placement, ...]]
) -> None:
    rows = torch.arange(13.0)  # 7 and 6, then 3, 3, 1 and 2, 2, 2; from left to right 2 and 1
    with shardprop.enabled(**settings):  # type: ignore[arg-type]
        assert check_plan(rows, (3, 2), *placements) is None
