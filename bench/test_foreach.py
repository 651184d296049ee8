"""The first foreach op on 300 parameters of 4 shapes and layouts: the whole propagation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.distributed.tensor import Placement

import shardprop
from shardprop import _torch
from shardprop.rules import torch_registry

from .conftest import MESHES
from .engine import P, R, S, spec_of

SHAPES = [(512, 512), (2048, 512), (512, 2048), (512,)]


def params(mesh: Any, turn: int) -> list[Any]:
    layouts: list[list[Placement]] = [[S(0), R], [R, S(0)], [S(0), S(0)], [R, R]]
    grads: list[list[Placement]] = [[S(0), R], [P, S(0)], [S(0), R], [P, P]]
    chosen = layouts if turn == 0 else grads
    return [spec_of(mesh, SHAPES[i % 4], chosen[i % 4]) for i in range(300)]


def described(sharding: Any) -> Any:
    wanted = sharding.redistribute_schema
    args = wanted.args_schema if wanted is not None else None
    return (
        sharding.needs_redistribute,
        [spec.placements for spec in sharding.output_spec],
        args and [[spec.placements for spec in arg] for arg in args[:2]],
    )


@pytest.mark.parametrize("ndim", [1, 2], ids=lambda n: f"{n}D")
@pytest.mark.parametrize("who", ["torch", "shardprop"])
def test_foreach_add(who: str, ndim: int, mesh_of: Any, run: Any) -> None:
    mesh = mesh_of(*MESHES[ndim])
    schema = torch_registry.op_schema(
        torch.ops.aten._foreach_add.List, (params(mesh, 0), params(mesh, 1)), {}
    )
    group = f"foreach_add on 300 parameters {ndim}-D"

    def forget() -> None:
        shardprop.clear_caches()
        _torch.clear_torch_caches()

    if who == "torch":
        run(lambda: _torch.torch_propagate(schema), 2, group, before=forget)
        return
    with shardprop.enabled():
        propagate = _torch.propagator().propagate_op_sharding_non_cached
        answer = run(lambda: propagate(schema), 10, group, before=forget)
    assert described(answer) == described(_torch.torch_propagate(schema))
