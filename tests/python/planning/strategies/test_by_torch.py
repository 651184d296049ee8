"""Strategies of an op that torch's own code decides."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor.experimental import register_sharding

import shardprop
from shardprop import _torch
from shardprop.propagation.route import Who, route_of

from ...specs import R, S, meta_of


def test_what_torch_decides_and_what_it_enumerates_are_strategies(mesh_of: Any) -> None:
    tables = _torch.propagator().op_strategy_funcs, _torch.propagator().op_to_schema_info
    with torch.library._scoped_library("shardprop_by_torch", "DEF") as library:
        library.define("halves(Tensor x) -> (Tensor, Tensor)")
        library.impl("halves", lambda x: (x + 1, x + 2), "CompositeExplicitAutograd")
        op = torch.ops.shardprop_by_torch.halves.default
        try:
            register_sharding(op)(lambda x: [([S(0), None], [S(0)]), ([R, R], [R])])
            assert route_of(op).who is Who.TORCH
            found = shardprop.strategies(op, (meta_of((8, 6)),), mesh=mesh_of(2))
        finally:
            for table in tables:
                table.pop(op)
    assert {*found} == {(((R,), (R,)), ((R,),)), (((S(0),), None), ((S(0),),))}
