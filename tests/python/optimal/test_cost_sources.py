"""Topologies of the program's own that are none, or whose functions go wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from torch.distributed.device_mesh import DeviceMesh

import shardprop
from shardprop import ShardpropError
from shardprop.cost.cost_model import CostModel, PiecewisePrice, PricePiece
from shardprop.cost.topology import Topology, load_topology
from shardprop.model.plan_steps import Step

from ..specs import R, S, spec_of
from .enabled import TOPOLOGY, dtensor, fresh_mesh


def gather(topology: Any, mesh: DeviceMesh | None = None) -> tuple[Step, ...]:
    mesh = mesh or fresh_mesh(4)
    ends = spec_of(mesh, (8, 8), [S(0)]), spec_of(mesh, (8, 8), [R])
    return shardprop.plan(*ends, topology=topology).steps


class Source:
    """A preset whose model is made another one."""

    name = "mine"

    def __init__(self, change: Any) -> None:
        self.change = change

    def on(self, mesh: DeviceMesh, flattened: Sequence[tuple[int, ...]] = ()) -> CostModel:
        return self.change(load_topology(TOPOLOGY).on(mesh, flattened))


def with_pieces(model: CostModel, *starts: float) -> CostModel:
    """The first group's collectives have a price of pieces that begin there."""
    price = PiecewisePrice(tuple(PricePiece(start, 1.0, 1e-3) for start in starts))
    costs = replace(model.groups[0], lines=(price,) * len(model.groups[0].lines))
    return replace(model, groups=(costs, *model.groups[1:]))


def raising(model: CostModel) -> CostModel:
    raise LookupError("no such rack")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: None, r"topology mine: Expected a CostModel from \.on\(.*got None"),
        (lambda model: replace(model, sizes=(2,)), r"topology mine: .*sizes \(4,\).*one of \(2,\)"),
        (raising, "topology mine: .*got LookupError: no such rack"),
        (lambda model: replace(model, groups=(5,)), "topology: Expected a CostModel of numbers"),
        (lambda model: replace(model, kernel_us=-1.0), "topology: kernel_us: .*got -1"),
        (
            lambda model: with_pieces(model),
            r"topology: groups\[0\]\.all_gather: Expected one piece and more, got none",
        ),
        (
            lambda model: with_pieces(model, 0.0, 8.0, 8.0),
            r"topology: groups\[0\]\.all_gather\.from_bytes: Expected 0 first and then ascending",
        ),
    ],
    ids=["none", "sizes", "raises", "groups", "negative", "no pieces", "pieces"],
)
def test_a_source_that_gives_no_model_of_the_mesh_is_refused(change: Any, message: str) -> None:
    assert gather(Source(lambda model: model))
    with pytest.raises(ShardpropError, match=message):
        gather(Source(change))


@pytest.mark.parametrize("topology", [Topology, float])
def test_a_class_is_no_topology(topology: type) -> None:
    with pytest.raises(ShardpropError, match=f"got the class {topology.__name__}"):
        load_topology(topology)


def test_what_a_function_raises_is_the_cause() -> None:
    def price(*_: object) -> float:
        raise KeyError("rack")

    with pytest.raises(ShardpropError, match=r"callback\('all_gather', \(0,\).*KeyError") as raised:
        gather(price)
    assert isinstance(raised.value.__cause__, KeyError)


def test_a_number_that_no_float_holds_is_no_time() -> None:
    with pytest.raises(ShardpropError, match="Expected microseconds, a number of at least 0"):
        gather(lambda *_: 10**400)


@pytest.mark.parametrize("inside", ["price", "op"])
def test_a_function_that_needs_a_price_itself_is_told(inside: str) -> None:
    mesh = fresh_mesh(4)
    ends = spec_of(mesh, (8, 8), [S(0)]), spec_of(mesh, (8, 8), [R])
    x, y = dtensor(mesh, (2, 8), [S(0)]), dtensor(mesh, (8, 2), [S(1)])

    def price(*_: object) -> float:
        return shardprop.redistribute_cost(*ends) if inside == "price" else float((x + y).numel())

    with (
        shardprop.enabled(policy="optimal", topology=price),
        pytest.raises(ShardpropError, match=r"got asked for one inside callback\('all_gather', "),
    ):
        shardprop.redistribute_cost(*ends)
    # The function's trouble is over with the call.
    assert gather(lambda *_: 1.0)
