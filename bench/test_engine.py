"""The engine alone: mm, add, bmm, layer_norm, cat and embedding on meshes of 1 to 4 dims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor._ops.single_dim_strategy import _ShardingPlaceholder

from .conftest import MESHES, TORCH_ROUNDS
from .engine import R, S, aten, engine, spec_of, spread, strided

# torch 2.13 has a full-mesh strategy for cat and no single-dim rule; both engines get 2.15's rows.
CAT_ROWS = [[_ShardingPlaceholder(d)] * 3 for d in (1, 2)]


def mm(mesh: DeviceMesh) -> Any:
    a, b = spec_of(mesh, (1024, 1024), spread(0)), spec_of(mesh, (1024, 1024), spread(3))
    return engine(aten.mm.default, (a, b))


def add(mesh: DeviceMesh) -> Any:
    a, b = spec_of(mesh, (1024, 1024), spread(0)), spec_of(mesh, (1024, 1024), spread(3))
    return engine(aten.add.Tensor, (a, b))


def bmm(mesh: DeviceMesh) -> Any:
    shape = (64, 512, 512)
    return engine(
        aten.bmm.default, (spec_of(mesh, shape, spread(0)), spec_of(mesh, shape, spread(3)))
    )


def layer_norm(mesh: DeviceMesh) -> Any:
    x = spec_of(mesh, (64, 64, 1024), spread(1))
    weight = spec_of(mesh, (1024,), [S(0), R, R, R])
    return engine(aten.native_layer_norm.default, (x, [1024], weight, weight, 1e-5))


def cat(mesh: DeviceMesh) -> Any:
    a = spec_of(mesh, (64, 512, 512), [S(1), R, S(2), R])
    b = spec_of(mesh, (64, 512, 512), [S(2), S(1), R, R])
    return engine(aten.cat.default, ([a, b],), CAT_ROWS)


def embedding(mesh: DeviceMesh) -> Any:
    table = spec_of(mesh, (4096, 512), [S(0), S(1), R, R])
    tokens = spec_of(mesh, (64, 128), [S(0), R, S(1), R], dtype=torch.int64)
    return engine(aten.embedding.default, (table, tokens))


CASES = [mm, add, bmm, layer_norm, cat, embedding]


@pytest.mark.parametrize("ndim", list(MESHES), ids=lambda n: f"{n}D")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("who", ["torch", "shardprop"])
def test_engine(who: str, case: Callable[..., Any], ndim: int, mesh_of: Any, run: Any) -> None:
    both = case(mesh_of(*MESHES[ndim]))
    group = f"engine {case.__name__} {ndim}-D"
    if who == "torch":
        answer = run(both.torch_alone, TORCH_ROUNDS[ndim], group)
    else:
        answer = run(both.shardprop, 1000, group, iterations=20)
        assert answer == both.torch_alone()
    assert len(answer) >= 2


@pytest.mark.parametrize("who", ["torch", "shardprop"])
def test_strided_bmm(who: str, mesh_of: Any, run: Any) -> None:
    """Operands as an attention block's views leave them. Caches are cold in every round."""
    mesh = mesh_of(4, 4)
    a = spec_of(mesh, (64, 512, 512), [strided(0, 2), S(0)])
    b = spec_of(mesh, (64, 512, 512), [S(1), R])
    both = engine(aten.bmm.default, (a, b))
    if who == "torch":
        run(both.torch_alone, 3, "engine strided bmm 2-D", before=both.forget)
    else:
        answer = run(both.shardprop, 200, "engine strided bmm 2-D", before=both.forget)
        both.forget()
        assert answer == both.torch_alone()
