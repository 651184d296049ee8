"""What `plan`, `propagate`, `propagate_toward` and `Plan.run` refuse, and how they name it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial
from torch.distributed.tensor._dtensor_spec import DTensorSpec

import shardprop
from shardprop import ShardpropError

from ..specs import P, R, S, meta_of, spec_of
from .enabled import TOPOLOGY, dtensor, fresh_mesh, mm

MAX = Partial("max")


@pytest.fixture(scope="module")
def mesh(process_group: None) -> DeviceMesh:
    return fresh_mesh(4, 4)


@pytest.fixture(autouse=True)
def disabled_afterwards() -> Iterator[None]:
    yield
    shardprop.disable()


def source(mesh: DeviceMesh) -> DTensorSpec:
    return spec_of(mesh, (64, 64), [S(0), R])


@pytest.mark.parametrize("policy", ["torch", "optimal"])
def test_mixed_partials_are_refused_at_either_end(mesh: DeviceMesh, policy: str) -> None:
    mixed, whole = spec_of(mesh, (8, 8), [MAX, P]), spec_of(mesh, (8, 8), [R, R])
    found = "got max on mesh dim 0, sum on mesh dim 1"
    with pytest.raises(ShardpropError, match=f"^src: .*{found}"):
        shardprop.plan(mixed, whole, topology=TOPOLOGY, policy=policy)
    with pytest.raises(ShardpropError, match=f"^dst: .*{found}"):
        shardprop.plan(whole, mixed, topology=TOPOLOGY, policy=policy)


def test_mixed_partials_of_an_operand_are_refused(mesh: DeviceMesh) -> None:
    mixed, whole = spec_of(mesh, (8, 8), [MAX, P]), spec_of(mesh, (8, 8), [R, R])
    shardprop.enable(policy="optimal", topology=TOPOLOGY)
    with pytest.raises(
        ShardpropError, match=r"mm\.default, operand 1: .*max on mesh dim 0, sum on"
    ):
        shardprop.propagate(mm, whole, mixed)


def test_sums_mix_with_averages_and_with_what_one_rank_has() -> None:
    mesh = fresh_mesh(4, 4, 1)
    pending, whole = [P, Partial("avg"), MAX], [R, R, R]
    ends = spec_of(mesh, (8, 8), pending), spec_of(mesh, (8, 8), whole)
    assert shardprop.plan(*ends, topology=TOPOLOGY).collectives


ENDS: dict[str, tuple[Any, str]] = {
    "none": (lambda _: None, r"^dst: Expected a DTensorSpec, got None"),
    "placements": (lambda _: (R, R), r"^dst: Expected a DTensorSpec, got \(Replicate"),
    "no metadata": (
        lambda mesh: DTensorSpec(mesh, (R, R)),
        "^dst: Expected a spec with tensor met",
    ),
    "few placements": (lambda mesh: spec_of(mesh, (64, 64), [R]), "^dst: Expected 2 placements"),
    "shape": (lambda mesh: spec_of(mesh, (32, 8), [R, R]), r"^dst: .*\(64, 64\), got \(32, 8\)"),
    "dtype": (
        lambda mesh: spec_of(mesh, (64, 64), [R, R], dtype=torch.float64),
        r"^dst: Expected the dtype of src, torch\.float32, got torch\.float64",
    ),
    "mesh": (lambda _: spec_of(fresh_mesh(2, 8), (64, 64), [R, R]), "got two meshes"),
}


@pytest.mark.parametrize("case", ENDS)
def test_an_end_of_a_plan_that_is_none_is_named(mesh: DeviceMesh, case: str) -> None:
    make, message = ENDS[case]
    with pytest.raises(ShardpropError, match=message):
        shardprop.plan(source(mesh), make(mesh), topology=TOPOLOGY)


CONSUMERS: dict[str, tuple[Any, str]] = {
    "a spec": (source, "^consumers: Expected a list of"),
    "none": (lambda _: None, "^consumers: Expected a list of"),
    "too many": (lambda _: [None, None], r"consumers: .* each of 1 outputs, got 2"),
    "a number": (lambda _: [5], r"consumers\[0\]: Expected a DTensorSpec, got 5"),
    "another mesh": (
        lambda _: [spec_of(fresh_mesh(16), (64, 64), [R])],
        r"consumers\[0\]: Expected a spec on the mesh of the op",
    ),
    "another shape": (
        lambda mesh: [spec_of(mesh, (3, 3), [R, R])],
        r"consumers\[0\]: Expected the shape of the output, \(64, 64\), got \(3, 3\)",
    ),
    "no such dim": (
        lambda mesh: [spec_of(mesh, (64, 64), [S(7), R])],
        r"consumers\[0\]: Expected shards of tensor dims below 2, got S\(7\) on mesh dim 0",
    ),
    "mixed": (
        lambda mesh: [DTensorSpec(mesh, (P, MAX), tensor_meta=meta_of((64, 64)))],
        r"consumers\[0\]: .*sum on mesh dim 0, max on mesh dim 1",
    ),
}


@pytest.mark.parametrize("case", CONSUMERS)
def test_consumers_that_fit_no_output_are_refused(mesh: DeviceMesh, case: str) -> None:
    make, message = CONSUMERS[case]
    shardprop.enable(policy="optimal", topology=TOPOLOGY)
    with pytest.raises(ShardpropError, match=message):
        shardprop.propagate_toward(make(mesh), mm, source(mesh), source(mesh))


def test_consumers_of_outputs_that_follow_are_not_passed_over(mesh: DeviceMesh) -> None:
    shardprop.enable(policy="optimal", topology=TOPOLOGY)
    view = torch.ops.aten.view.default
    with pytest.raises(ShardpropError, match="whose outputs follow its operands"):
        shardprop.propagate_toward([None], view, source(mesh), [4096])


LOCAL: dict[str, tuple[Any, str]] = {
    "none": (lambda _: None, "got a NoneType"),
    "a DTensor": (
        lambda mesh: dtensor(mesh, (16, 64), [S(0), R]),
        r"got a DTensor: pass its to_local\(\)",
    ),
    "a dtype": (lambda _: torch.zeros(16, 64, dtype=torch.int8), r"float32, got torch\.int8"),
    "a shape": (lambda _: torch.zeros(64, 64), r"\(16, 64\), got \(64, 64\)"),
}


@pytest.mark.parametrize("case", LOCAL)
def test_a_tensor_that_is_not_what_this_rank_holds_is_refused(mesh: DeviceMesh, case: str) -> None:
    make, message = LOCAL[case]
    plan = shardprop.plan(source(mesh), spec_of(mesh, (64, 64), [R, S(1)]), topology=TOPOLOGY)
    with pytest.raises(ShardpropError, match=f"^local_tensor: Expected .*{message}"):
        plan.run(make(mesh))
    assert not isinstance(plan.run(torch.zeros(16, 64)), DTensor)
    assert plan.run(torch.zeros(16, 64, device="meta")).shape == (64, 16)
