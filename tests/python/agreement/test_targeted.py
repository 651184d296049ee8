"""Ops about which an answer could easily be another: lists, defaults left out, what torch refuses,
and what is decided inside of a decomposition."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.attention import SDPBackend, sdpa_kernel

import shardprop
from shardprop import ShardpropError

from ..narrow import known
from ..programs.world import seeded, spread
from ..specs import P, R, S, spec_of
from .answers import disagreements
from .questions import Question

MeshOf = Callable[..., DeviceMesh]

aten = torch.ops.aten


def agreed(op: Any, mesh: DeviceMesh, *args: Any, **kwargs: Any) -> shardprop.Decision:
    """The decision that all of them answer."""
    assert disagreements(Question(op, args, kwargs, mesh)) == []
    return shardprop.propagate(op, *args, **kwargs)


def test_lists(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4)
    xs = [spec_of(mesh, (8, 8), [p]) for p in (S(0), S(0), P)]
    ys = [spec_of(mesh, (8, 8), [p]) for p in (S(1), S(1), R)]
    decision = agreed(aten._foreach_add.List, mesh, xs, ys)
    assert len(decision.outputs) == 3 and len(decision.operands) == 6
    assert decision.cost > 0
    strategies = shardprop.strategies(aten._foreach_add.List, (xs, ys), mesh=mesh)
    assert len(strategies.elements) == 3
    (explained,) = shardprop.explain(aten._foreach_add.List, xs, ys).decisions
    assert [each.alike for each in explained.elements] == [2, 1]


def test_a_fused_optimizer(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4)
    lists = [[spec_of(mesh, (8, 8), [S(0)]), spec_of(mesh, (8,), [R])] for _ in range(4)]
    steps = [spec_of(mesh, (), [R]) for _ in range(2)]
    settings = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8}
    flags = {"amsgrad": False, "maximize": False}
    decision = agreed(aten._fused_adamw_.default, mesh, *lists, [], steps, **settings, **flags)
    assert decision.cost == 0.0


@pytest.mark.parametrize("placement", [S(0), S(1), P], ids=str)
def test_a_fused_op_on_single_tensors(mesh_of: MeshOf, placement: Any) -> None:
    mesh = mesh_of(4)
    x, weight = spec_of(mesh, (8, 16), [placement]), spec_of(mesh, (16,), [R])
    decision = agreed(aten._fused_rms_norm.default, mesh, x, [16], weight, 1e-5)
    assert len(decision.outputs) == 2


def test_defaults_may_be_given_or_left_out(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4)
    a = spec_of(mesh, (16, 32), [S(0)], dtype=torch.float8_e4m3fn)
    whole = spec_of(mesh, (16, 32), [R], dtype=torch.float8_e4m3fn)
    transposed = torch.empty(16, 32, device="meta", dtype=torch.float8_e4m3fn).t()
    meta = known(whole.tensor_meta)._replace(shape=transposed.shape, stride=transposed.stride())
    b = type(whole)(mesh, (R,), tensor_meta=meta)
    scale = spec_of(mesh, (), [R])
    op = aten._scaled_mm.default
    short = (a, b, scale, scale, None, None, torch.bfloat16)
    full = (*short, False)
    assert [each.name for each in op._schema.arguments[7:]] == ["use_fast_accum"]
    left_out, given = agreed(op, mesh, *short), shardprop.propagate(op, *full)
    assert (left_out.outputs, left_out.operands) == (given.outputs, given.operands)
    explained = [shardprop.explain(op, *args).decision for args in (short, full)]
    assert explained[0].candidates == explained[1].candidates
    assert explained[0].us == left_out.cost == given.cost


def test_a_tensor_where_a_list_belongs_is_an_error_at_once(mesh_of: MeshOf) -> None:
    x, index = spec_of(mesh_of(4), (8, 8), [S(0)]), spec_of(mesh_of(4), (4,), [R])
    asked = (
        lambda: shardprop.propagate(aten.index.Tensor, x, index),
        lambda: shardprop.explain(aten.index.Tensor, x, index),
        lambda: shardprop.strategies(aten.index.Tensor, (x, index), mesh=mesh_of(4)),
    )
    start = time.perf_counter()
    for ask in asked:
        with pytest.raises(ShardpropError, match="Expected a list of tensors"):
            ask()
    assert time.perf_counter() - start < 1.0


def test_what_torch_refuses_is_said_to_be(mesh_of: MeshOf) -> None:
    """Its decomposition calls a factory, of whose result torch's rules know nothing."""
    mesh = mesh_of(4)
    x = spec_of(mesh, (8, 4), [S(0)])
    op = aten.hardswish_backward.default
    assert agreed(op, mesh, x, x).refused_by_torch
    explained = shardprop.explain(op, x, x).decision
    assert explained.refused_by_torch
    assert any("torch refuses this op" in note for note in explained.notes)
    assert len(shardprop.strategies(op, (x, x), mesh=mesh)) > 0


def test_what_is_decided_inside_is_no_decision_of_its_own(mesh_of: MeshOf) -> None:
    q, k, v = (spread(seeded(4, 8, 16, 4), mesh_of(4), S(1)) for _ in range(3))

    def attention() -> Any:
        with torch.inference_mode(), sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    shardprop.clear_caches()
    with shardprop.trace() as trace:
        attention()
    traced = [each.op for each in trace.decisions]
    explained = [each.op for each in shardprop.explain(attention).decisions]
    assert traced == explained
    assert sum("scaled_dot_product" in op for op in traced) == 1
    assert not [op for op in traced if op.startswith("prims.")]


def test_none_where_the_schema_has_a_plain_tensor(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4)
    query, key = spec_of(mesh, (4, 2, 8, 16), [S(0)]), spec_of(mesh, (4, 2, 8, 16), [R])
    logsumexp = spec_of(mesh, (4, 2, 8), [R])
    state = spec_of(mesh, (), [R], dtype=torch.int64)
    decision = agreed(
        aten._scaled_dot_product_efficient_attention_backward.default,
        mesh,
        *(query, query, key, key, None, query, logsumexp, state, state),
        *(0.0, [True, True, True, False]),
    )
    assert decision.outputs == ((S(0),), (S(0),), (S(0),), None)
