"""Who consumes what, watched in a step of a program."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

import shardprop
from shardprop import _torch
from shardprop.planning.look_ahead.consumers import Use, call_key

from ...narrow import sharded
from ...specs import P, R, S, spec_of
from .models import dtensor

MeshOf = Callable[..., DeviceMesh]
aten = torch.ops.aten
TORCHS = _torch.torchs_methods["redistribute"]


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


def foreign(tensor: DTensor, *args: object, **kwargs: object) -> DTensor:
    return TORCHS(tensor, *args, **kwargs)


@pytest.mark.parametrize("enabled_before", [False, True])
@pytest.mark.parametrize("enabled_after", [False, True])
def test_what_is_enabled_in_the_block_stays(enabled_before: bool, enabled_after: bool) -> None:
    """And what was disabled in it is torch's again."""
    try:
        shardprop.enable()
        assert vars(DTensor)["redistribute"] is not TORCHS
        if not enabled_before:
            shardprop.disable()
        with shardprop.watch_consumers(), shardprop.watch_consumers():
            if enabled_after:
                shardprop.enable()
            else:
                shardprop.disable()
        assert shardprop.is_enabled() == enabled_after
        assert (vars(DTensor)["redistribute"] is TORCHS) == (not enabled_after)
    finally:
        shardprop.disable()
    assert vars(DTensor)["redistribute"] is TORCHS


def test_what_somebody_else_put_there_is_watched_and_stays(
    mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DTensor, "redistribute", foreign)
    x = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.enabled(), shardprop.watch_consumers() as seen:
        sharded(x.relu()).redistribute(placements=[S(0)])
    assert vars(DTensor)["redistribute"] is foreign
    assert len(uses(seen, aten.relu.default, spec_of(mesh_of(2), (8, 8), [R]))) == 1


def test_blocks_that_overlap_leave_nothing_behind() -> None:
    """As those of two threads may."""
    one, other = shardprop.watch_consumers(), shardprop.watch_consumers()
    one.__enter__()
    with ExitStack() as stack:
        stack.callback(other.__exit__, None, None, None)
        other.__enter__()
        one.__exit__(None, None, None)
    assert vars(DTensor)["redistribute"] is TORCHS


def test_who_wraps_a_watch_is_watched_later(
    mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DTensor, "redistribute", TORCHS)  # which is put back at the end
    with shardprop.watch_consumers():
        watched = vars(DTensor)["redistribute"]

        def wrapping(tensor: DTensor, *args: object, **kwargs: object) -> DTensor:
            return watched(tensor, *args, **kwargs)

        monkeypatch.setattr(DTensor, "redistribute", wrapping)
    x = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.watch_consumers() as seen:
        sharded(x.relu()).redistribute(placements=[S(0)])
    assert vars(DTensor)["redistribute"] is wrapping
    ((use, share),) = uses(seen, aten.relu.default, spec_of(mesh_of(2), (8, 8), [R]))
    assert (use.op, share) == (None, 1.0)
