"""Every strategy of an mm with prices, beside torch's expansion with costs.

Both are given operands that may come in any of 16 layouts. torch expands its rows, makes a spec for
each operand of each strategy and prices it from every layout; its plans are forgotten before each
round. We hold no prices; both keep what they know of the mesh. Sets are equal; prices are of
different models and so are not compared here.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._op_schema import OpSchema, OpSpec, OpStrategy
from torch.distributed.tensor._ops import single_dim_strategy

import shardprop
from shardprop.metadata import output_meta
from shardprop.rules import torch_registry

from .engine import P, R, S, aten, spec_of

# 16 layouts: what a pointwise op or an mm leaves behind.
SOURCES = [*itertools.product([R, P, S(0), S(1)], repeat=2)]


def _placements_among(schema: OpSchema) -> set[Any]:
    """torch's own function for this takes operands with one layout only."""
    strategies = [arg for arg in schema.args_schema if isinstance(arg, OpStrategy)]
    return {p for each in strategies for s in each.strategies for p in s.output_spec.placements}


def expanded(mesh: DeviceMesh, args: tuple[DTensorSpec, ...]) -> OpStrategy:
    """torch's strategies, each with costs from every source."""
    op = aten.mm.default
    info = torch_registry.op_schema_info(op)
    wrapped = tuple(
        OpStrategy([OpSpec(DTensorSpec(mesh, p, tensor_meta=arg.tensor_meta)) for p in SOURCES])
        for arg in args
    )
    schema = OpSchema(op, wrapped, {}, schema_info=info)
    meta = output_meta(OpSchema(op, args, {}, schema_info=info))
    rule = torch_registry.single_dim_entry(op)
    assert rule is not None
    expand = single_dim_strategy._expand_single_dim_strategy_to_mesh(mesh, schema, rule, meta)
    return expand(op, schema.args_meta, schema.kwargs_meta)


@pytest.mark.parametrize("who", ["torch", "shardprop"])
def test_strategies_of_mm(who: str, mesh_of: Any, run: Any, monkeypatch: Any) -> None:
    mesh = mesh_of(8, 8)
    a, b = (spec_of(mesh, shape, [R, R]) for shape in ((4096, 1024), (1024, 14336)))
    monkeypatch.setattr(single_dim_strategy, "_get_unique_placements", _placements_among)
    group = "strategies of mm with prices, 16 sources, 2-D"
    if who == "torch":
        answer = run(lambda: expanded(mesh, (a, b)), 2, group, before=shardprop.clear_caches)
        assert len(answer.strategies[0].redistribute_cost[0]) == len(SOURCES)
        return
    planner = shardprop.ExactPlanner(shardprop.load_topology("h100-nvlink"))

    def ours() -> Any:
        found = shardprop.strategies(
            aten.mm.default, (a, b), mesh=mesh, sources=[SOURCES, SOURCES], prices=planner
        )
        return found, found.prices

    found, prices = run(ours, 100, group)
    assert [each.shape for each in prices] == [(len(found), 16)] * 2
    theirs = expanded(mesh, (a, b)).strategies
    assert {(each.outputs, each.operands) for each in found} == {
        ((s.output_spec.placements,), tuple(i.placements for i in s.input_specs or ()))
        for s in theirs
    }
