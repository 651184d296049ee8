"""Who consumes what, watched in a step of a program."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

import shardprop
from shardprop.planning.look_ahead.consumers import Use, call_key

from ...narrow import sharded
from ...specs import P, R, S, spec_of
from .models import dtensor

MeshOf = Callable[..., DeviceMesh]
aten = torch.ops.aten


def uses(seen: shardprop.Consumers, op: object, *args: object) -> list[tuple[Use, float]]:
    return [*seen.of(call_key(op, args, {}), 0)]  # type: ignore[arg-type]


def test_ops_and_redistributions_that_take_an_output_are_its_consumers(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2)
    x, w = dtensor(mesh, (8, 8), [S(1)]), dtensor(mesh, (8, 8), [S(0)])
    with shardprop.enabled(), shardprop.watch_consumers() as seen:
        made = sharded(x @ w)
        made.redistribute(placements=[S(0)])
        (made * made).relu()
    operand = spec_of(mesh, (8, 8), [R])
    found = uses(seen, aten.mm.default, operand, operand)
    assert [(use.op, use.operands, share) for use, share in found] == [
        (None, (0,), 1.0),
        (aten.mul.Tensor, (0, 1), 1.0),
    ]
    assert found[0][0].args[0].placements == (S(0),)
    assert [use.op for use, _ in uses(seen, aten.mul.Tensor, operand, operand)] == [
        aten.relu.default
    ]
    assert uses(seen, aten.relu.default, operand) == []


def test_a_redistribution_to_where_an_output_is_is_a_wish(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2)
    x, w = dtensor(mesh, (8, 8), [S(0)]), dtensor(mesh, (8, 8), [R])
    with shardprop.enabled(), shardprop.watch_consumers() as seen:
        sharded(x @ w).redistribute(placements=[S(0)]).relu()
    operand = spec_of(mesh, (8, 8), [R])
    # The relu takes it from there, whatever the product leaves.
    ((use, share),) = uses(seen, aten.mm.default, operand, operand)
    assert (use.op, use.args[0].placements, share) == (None, (S(0),), 1.0)


def test_calls_that_are_alike_share_their_consumers(mesh_of: MeshOf) -> None:
    x = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.enabled(), shardprop.watch_consumers() as seen:
        x.relu().exp()
        x.relu()
    operand = spec_of(mesh_of(2), (8, 8), [R])
    ((use, share),) = uses(seen, aten.relu.default, operand)
    assert (use.op, share) == (aten.exp.default, 0.5)


def test_backward_is_watched(mesh_of: MeshOf) -> None:
    x = dtensor(mesh_of(2), (8, 8), [S(0)]).requires_grad_()
    with shardprop.enabled(), shardprop.watch_consumers() as seen:
        (x * 2).exp().sum().backward()
    operand = spec_of(mesh_of(2), (8, 8), [R])
    # The gradient of exp is multiplied by 2, as x was.
    assert aten.mul.Tensor in {use.op for use, _ in uses(seen, aten.mul.Tensor, operand, operand)}


def test_a_watched_step_is_decided_by_what_comes_next(mesh_of: MeshOf) -> None:
    """Two layers whose output is wanted whole: what they leave pending is reduced once."""
    mesh = mesh_of(4)
    layer = nn.Linear(64, 64, bias=False)
    layer.weight = nn.Parameter(dtensor(mesh, (64, 64), [S(1)]))
    x = dtensor(mesh, (32, 64), [R])

    def step() -> torch.Tensor:
        return layer(x).redistribute(placements=[S(0)])

    optimal = shardprop.enabled(policy="optimal", topology="h100-nvlink")
    with optimal, shardprop.watch_consumers() as seen:
        step()
    assert len(seen) >= 1
    with shardprop.enabled(policy="optimal", topology="h100-nvlink", consumers=seen):
        made = step()
    assert made.placements == (S(0),)  # type: ignore[attr-defined]
    assert P not in made.placements  # type: ignore[attr-defined]


def test_nothing_is_watched_afterwards(mesh_of: MeshOf) -> None:
    x = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.enabled(), shardprop.watch_consumers() as seen:
        pass
    x.relu()
    assert len(seen) == 0
