"""Names that the core exports: what Python has for each of them, it has for all."""

from __future__ import annotations

import dataclasses

import torch

from shardprop import _core
from shardprop.cost.calibration.workloads import _WORKLOADS
from shardprop.cost.cost_model import COLLECTIVES
from shardprop.cost.topology.links import PerCollective
from shardprop.inspection.report.colours import STEP_COLOURS
from shardprop.redistribution.execution import _MOVES


def test_every_collective_is_priced_measured_and_drawn() -> None:
    assert COLLECTIVES is _core.COLLECTIVES
    assert {field.name for field in dataclasses.fields(PerCollective)} == {*COLLECTIVES}
    assert {*_WORKLOADS} == {*STEP_COLOURS} == {*COLLECTIVES}
    each = PerCollective.each(str.upper)
    assert [each.of(name) for name in COLLECTIVES] == [name.upper() for name in COLLECTIVES]
    assert PerCollective.same(3).all_equal()


def test_every_step_of_a_plan_is_carried_out() -> None:
    assert {*_MOVES} == {*_core.STEPS}
    assert _core.STEPS[: len(COLLECTIVES)] == COLLECTIVES


def test_torch_has_what_the_core_names() -> None:
    assert all(isinstance(getattr(torch, name), torch.dtype) for name in _core.DTYPES)
    formats = [getattr(torch, name) for name in _core.MEMORY_FORMATS]
    assert all(isinstance(each, torch.memory_format) for each in formats)
    assert torch.distributed.tensor.Partial().reduce_op in _core.REDUCE_OPS
