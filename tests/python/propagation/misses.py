"""Many questions that no cache can answer: cheap ops on sizes that no earlier turn had."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor._op_schema import OpSchema

from shardprop.rules import torch_registry

from ..specs import P, R, S, spec_of

__all__ = ["PER_TURN", "questions"]

aten = torch.ops.aten
# What `questions` yields a turn.
PER_TURN = 10


def questions(mesh: DeviceMesh, turn: int) -> Iterator[OpSchema]:
    """The ops of a training step on a 2-D mesh, at a sequence length that is this turn's own."""
    length = 8 * (1 + turn)
    x = spec_of(mesh, (4, length, 16), [S(0), R])
    hidden = spec_of(mesh, (4, length, 32), [S(0), S(2)])
    flat = spec_of(mesh, (4 * length, 16), [S(0), R])
    weight, bias = spec_of(mesh, (16, 32), [R, S(1)]), spec_of(mesh, (16,), [R, R])
    table = spec_of(mesh, (64, 16), [R, R])
    tokens = spec_of(mesh, (4, length), [S(0), R], dtype=torch.int64)
    rate = 1e-3 / (1 + turn)  # as a schedule changes it: a plain float, another one each step
    parameters = [weight, bias, weight]
    asked: list[tuple[Any, ...]] = [
        (aten.embedding.default, table, tokens),
        (aten.native_layer_norm.default, x, [16], bias, bias, 1e-5),
        (aten.mm.default, flat, weight),
        (aten.mm.default, spec_of(mesh, (4 * length, 16), [P, S(0)]), weight),  # moves
        (aten.add.Tensor, x, x),
        (aten.gelu.default, hidden),
        (aten._softmax.default, hidden, 1, False),
        (aten.sum.dim_IntList, hidden, [0, 1]),
        (aten.view.default, hidden, [4 * length, 32]),
        (aten._foreach_mul.Scalar, parameters, rate),
    ]
    assert len(asked) == PER_TURN
    for op, *args in asked:
        yield torch_registry.op_schema(op, tuple(args), {})
