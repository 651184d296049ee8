"""Redistributions whose plan by torch alone moves wrong data, carried out on simulated ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement

import shardprop
from shardprop.corrections.strided_out_of_order import STRIDED_OUT_OF_ORDER
from shardprop.corrections.uneven_flattened_gather import UNEVEN_FLATTENED_GATHER
from shardprop.propagation.propagator import counters
from shardprop.verification.validate.plans import check_plan, check_plans

from ..specs import SS, P, R, S, spec_of

MESHES = ((2, 2), (2, 3), (4,), (2, 2, 2), (3, 2, 2), (2, 2, 2, 2))

Layout = Sequence[Placement]

# Name of the fault, rows of the tensor, ranks, from, to, with a flattened mesh.
WRONG: dict[str, tuple[str, int, tuple[int, ...], Layout, Layout, bool]] = {
    "gather": (UNEVEN_FLATTENED_GATHER.name, 5, (2, 2), [S(0), S(0)], [R, R], True),
    "three dims": (UNEVEN_FLATTENED_GATHER.name, 13, (2, 2, 2), [S(0)] * 3, [R] * 3, True),
    "strided inside": (STRIDED_OUT_OF_ORDER.name, 13, (2, 2), [SS(0, 3), S(0)], [R, R], False),
    "strided away": (STRIDED_OUT_OF_ORDER.name, 12, (2, 3), [SS(0, 2), S(0)], [R, S(0)], False),
    "strided target": (STRIDED_OUT_OF_ORDER.name, 12, (2, 2), [P, S(0)], [SS(0, 3), S(0)], False),
}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    shardprop.clear_caches()
    shardprop.reset_stats()
    yield
    shardprop.disable()
    shardprop.clear_caches()


@pytest.mark.parametrize("name", WRONG)
def test_torch_alone_moves_wrong_data_and_this_is_right_and_counted(name: str) -> None:
    fault, rows, ranks, src, dst, flattened = WRONG[name]
    whole = torch.arange(rows * 3.0).reshape(rows, 3)

    def wrong() -> str | None:
        return check_plan(whole, ranks, tuple(src), tuple(dst), flattened=flattened)

    assert wrong() is not None
    with shardprop.enabled():
        assert wrong() is None
        assert counters().corrections == {fault: 1}
        assert wrong() is None  # from the held plan
        assert counters().corrections == {fault: 2}
    with shardprop.enabled(corrections=False):
        assert wrong() is not None
    assert counters().corrections == {fault: 2}


def test_gathers_that_are_merged_rightly_are_merged() -> None:
    with shardprop.enabled():
        assert check_plan(torch.randn(8, 3), (2, 2), (S(0), S(0)), (R, R), flattened=True) is None
    assert counters().corrections == {}


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"policy": "optimal", "topology": "cpu-gloo"}], ids=str)
def test_random_plans_move_the_right_data(settings: dict[str, str]) -> None:
    with shardprop.enabled(**settings):  # type: ignore[arg-type]
        report = check_plans(MESHES, count=180, seed=20261124)
    assert report.checks > 170, report.skipped
    assert report.findings == []


def test_the_plan_that_is_shown_is_the_one_that_runs(mesh_of: Callable[..., DeviceMesh]) -> None:
    mesh = mesh_of(2, 3)
    src, dst = (spec_of(mesh, (12, 3), layout) for layout in ([SS(0, 2), S(0)], [R, S(0)]))
    plan = shardprop.plan(src, dst, policy="torch")
    assert [(step.kind, step.mesh_dims) for step in plan.steps] == [
        ("all_gather", (1,)),
        ("all_gather", (0,)),
        ("chunk", (1,)),
    ]
