"""A Python function as a cost model."""

from __future__ import annotations

import math
from typing import Any

import pytest

from shardprop.cost.topology import CallbackTopology, Memory, load_topology
from shardprop.errors import ShardpropError


def price(collective: str, mesh_dims: tuple[int, ...], ranks: int, wire_bytes: int) -> float:
    return len(collective) + 10 * ranks + 100 * len(mesh_dims) + wire_bytes


def test_a_function_is_a_topology(mesh_of: Any) -> None:
    model = load_topology(price).on(mesh_of(2, 1, 4), [(0, 2)])
    assert [group.mesh_dims for group in model.groups] == [(0,), (2,), (0, 2)]
    assert model.callback is not None
    assert model.callback("permute", (0, 2), 8, 1000) == 7 + 80 + 200 + 1000
    assert (model.kernel_us, model.memory_us_per_byte) == (0.0, 0.0)


def test_models_of_one_function_are_equal(mesh_of: Any) -> None:
    mesh = mesh_of(2, 4)
    assert load_topology(price).on(mesh) == load_topology(price).on(mesh)
    assert len({load_topology(price).on(mesh), load_topology(price).on(mesh)}) == 1


def test_memory_can_be_given_beside_the_function(mesh_of: Any) -> None:
    topology = CallbackTopology(price, Memory(2.0, 1000.0), all_to_all_gathers=True)
    model = load_topology(topology).on(mesh_of(2))
    assert (model.kernel_us, model.memory_us_per_byte) == (2.0, 1e-6)
    assert model.all_to_all_gathers


@pytest.mark.parametrize("answer", [math.nan, math.inf, -1.0, None, "5"], ids=repr)
def test_answers_that_are_no_time_are_refused(mesh_of: Any, answer: Any) -> None:
    model = load_topology(lambda *_: answer).on(mesh_of(4))
    assert model.callback is not None
    with pytest.raises(ShardpropError) as caught:
        model.callback("all_gather", (0,), 4, 64)
    assert str(caught.value) == (
        "callback('all_gather', (0,), 4, 64): Expected microseconds, a number of at least 0, got "
        f"{answer!r}."
    )
