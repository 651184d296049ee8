"""Shifts, and what else torch's dispatcher takes for in-place ops by their names."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, distribute_tensor

import shardprop
from shardprop import _torch
from shardprop.corrections.named_as_in_place import NAMED_AS_IN_PLACE
from shardprop.propagation.propagator import counters

from ..narrow import sharded
from ..specs import R, S

MeshOf = Callable[..., DeviceMesh]

X = torch.tensor([[1, 12, 7], [5, 6, 3]])
CALLS: dict[str, Callable[[Any], Any]] = {
    "<< number": lambda x: x << 2,
    ">> number": lambda x: x >> 1,
    "<< tensor": lambda x: x << (x - x + 3),
    ">> tensor": lambda x: x >> (x - x + 1),
    "& number": lambda x: x & 5,
    "| tensor": lambda x: x | (x + 1),
    "^ number": lambda x: operator.xor(x, 3),
}


@pytest.fixture(autouse=True)
def without_decisions() -> Iterator[None]:
    shardprop.reset_stats()
    yield
    shardprop.disable()
    shardprop.clear_caches()


def is_right(run: Callable[[Any], Any], mesh: DeviceMesh, inference: bool) -> bool:
    with LocalTensorMode(2), torch.inference_mode(inference):
        x = distribute_tensor(X.clone(), mesh, [S(0)])
        found = _torch.tensors_of_ranks(sharded(run(x)).full_tensor(), 2)
        untouched = _torch.tensors_of_ranks(sharded(x).full_tensor(), 2)
    assert all(torch.equal(local, X) for local in untouched)
    return all(torch.equal(local, run(X)) for local in found)


@pytest.mark.parametrize("inference", [False, True], ids=["", "inference mode"])
@pytest.mark.parametrize("call", CALLS)
def test_the_op_that_is_meant_is_run(call: str, inference: bool, mesh_of: MeshOf) -> None:
    run, mesh = CALLS[call], mesh_of(2)
    with shardprop.enabled():
        assert is_right(run, mesh, inference)
        misnamed = inference or "<" in call or ">" in call
        assert counters().corrections.get(NAMED_AS_IN_PLACE.name, 0) == misnamed
    # Neither is it right without, nor with torch's faults.
    assert is_right(run, mesh, inference) == (not misnamed)
    with shardprop.enabled(corrections=False):
        assert is_right(run, mesh, inference) == (not misnamed)


def test_ops_that_do_write_into_their_operand_are_left_alone(mesh_of: MeshOf) -> None:
    with shardprop.enabled(), LocalTensorMode(2):
        x = distribute_tensor(X.clone(), mesh_of(2), [S(0)])
        assert operator.ilshift(x, 1) is x
        found = _torch.tensors_of_ranks(x.full_tensor(), 2)
    assert all(torch.equal(local, X << 1) for local in found)


def test_a_handler_of_the_programs_own_stays() -> None:
    handlers: Any = DTensor._op_dispatcher._custom_op_handlers
    op = torch.ops.aten.__lshift__.Scalar

    def mine(*_: Any) -> None:
        pass

    handlers[op] = mine
    try:
        with shardprop.enabled():
            assert handlers[op] is mine
        assert handlers[op] is mine
    finally:
        del handlers[op]


def test_each_op_means_one_that_gives_the_same() -> None:
    for op, meant in _torch.MEANT.items():
        operand: Any = 2 if op._overloadname == "Scalar" else torch.tensor([[1, 2, 0], [3, 1, 2]])
        assert torch.equal(op(X, operand), meant(X, operand)), op
        assert not meant._schema.name.endswith("_")


def test_placements_are_those_of_the_op_that_is_meant(mesh_of: MeshOf) -> None:
    with shardprop.enabled(), LocalTensorMode(2):
        x = distribute_tensor(X.clone(), mesh_of(2), [S(1)])
        assert sharded(x << 1).placements == (S(1),)
        assert sharded(x << distribute_tensor(X[0], mesh_of(2), [R])).placements == (S(1),)
