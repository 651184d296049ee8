"""Ops carried out by DTensor against one device: right ones pass, faults of gradients are found."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.tensor import Partial as P

import shardprop
from shardprop import ShardingPlaceholder as X
from shardprop.verification.calls.call import Call
from shardprop.verification.settings import Settings
from shardprop.verification.validate.check import check_op
from shardprop.verification.validate.gradients import Ran, check_gradients
from shardprop.verification.validate.results import OpReport

from ...specs import R
from . import seeded_gradients

aten = torch.ops.aten
FEW = Settings(missing=False, scripts=False)
ONE_MESH = Settings(ranks=(3,), composed=(), layouts=6, scripts=False)


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture
def rules() -> Iterator[None]:
    with shardprop.temporary_rules():
        seeded_gradients.register_rules()
        yield


def check(op: Any, *calls: Sequence[Any], settings: Settings = FEW) -> OpReport:
    return check_op(op, [Call(op, tuple(args)) for args in calls], settings)


def ran(op: Any, *args: Any, settings: Settings = ONE_MESH) -> Ran:
    *_, last = check_gradients([Call(op, args)], settings)
    assert last.is_complete
    return last


def x(*shape: int) -> torch.Tensor:
    return torch.rand(shape, dtype=torch.float64)


LOSSES = {
    aten.mse_loss.default: (),
    aten.smooth_l1_loss.default: (),
    aten.huber_loss.default: (),
    aten.binary_cross_entropy.default: (),
    aten.soft_margin_loss.default: (),
}


@pytest.mark.slow
@pytest.mark.parametrize("op", LOSSES, ids=str)
@pytest.mark.parametrize("size", [6, 7, 4])
def test_losses_are_right(op: Any, size: int) -> None:
    """On even shards, uneven ones, and where a rank has none; forward and backward."""
    report = check(op, (x(size, 6), x(size, 6)))
    assert report.wrong == report.unsound == [] and report.error is None
    assert report.rule == "decomposition" and report.rows > 0
    assert report.runs == 12 and report.gradients >= 12


@pytest.mark.parametrize("op", LOSSES, ids=str)
def test_without_corrections_their_gradients_are_wrong(op: Any) -> None:
    with shardprop.enabled(corrections=False):
        found = ran(op, x(6, 6), x(6, 6)).findings
    assert {finding.kind for finding in found} == {"wrong"}
    wrong = [finding for finding in found if finding.reason.startswith("gradient of self: off by")]
    assert wrong and wrong[0].mesh == (3,) and "S(" in wrong[0].rows[0]
    assert not any(finding.raises for finding in found)


def test_torch_alone_is_asked_for_as_for_rows() -> None:
    settings = Settings(ranks=(2,), composed=(), rule="torch", scripts=False)
    assert ran(aten.mse_loss.default, x(6, 6), x(6, 6), settings=settings).findings


@pytest.mark.parametrize(
    ("op", "args"),
    [
        (aten.amax.default, (x(6, 6),)),
        (aten.linalg_vector_norm.default, (x(6, 7), 2)),
        (aten._softmax.default, (x(7, 6), 1, False)),
        (aten.native_layer_norm.default, (x(5, 6), [6], x(6), x(6), 1e-5)),
        (aten.cumsum.default, (x(7, 6), -1)),
        (aten.index_select.default, (x(6, 7), 1, torch.tensor([0, 3, 3, 5]))),
        (aten.mm.default, (x(7, 6), x(6, 5))),
        (aten.add_.Tensor, (x(7, 6), x(6))),
        (aten.cat.default, ([x(4, 6), x(5, 6)], 0)),
        (aten.split.Tensor, (x(7, 6), 2)),
        (aten.matmul.default, (x(2, 7, 6), x(6, 5))),
        (aten.mean.default, (x(7, 6).to(torch.complex128),)),
        (aten._foreach_mul.List, ([x(4, 6), x(7)], [x(4, 6), x(7)])),
    ],
    ids=lambda value: str(value) if isinstance(value, torch._ops.OpOverload) else "",
)
def test_what_is_right_passes(op: Any, args: Any) -> None:
    found = ran(op, *args, settings=Settings(layouts=6, scripts=False))
    assert found.findings == []
    assert found.runs > 9 and found.gradients > 9


def test_of_a_maximum_norm_what_depends_on_values_is_found_alone() -> None:
    """A pending maximum of negative numbers is let through: docs/corrections.md says so."""
    found = ran(aten.linalg_vector_norm.default, x(6, 7), math.inf, settings=FEW)
    assert all("P(max) -> P(max)" in finding.rows for finding in found.findings)
    assert found.gradients > 9


@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize("op", seeded_gradients.CALLS)
def test_ops_without_a_fault_pass(op: str) -> None:
    for size in (6, 7):
        call = getattr(seeded_gradients.ops, op).default
        found = ran(call, *seeded_gradients.CALLS[op](size))
        assert found.findings == [] and found.gradients >= found.runs > 2


@pytest.mark.slow
@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize("fault", seeded_gradients.FAULTS)
def test_seeded_faults_are_found(fault: str) -> None:
    """Of each kind in each op on several sizes, where it changes a gradient at all."""
    seeded = 0
    for op, call in seeded_gradients.CALLS.items():
        for size in (6, 7):
            with seeded_gradients.spoilt(fault) as spoilt:
                found = ran(getattr(seeded_gradients.ops, op).default, *call(size)).findings
            assert bool(found) == spoilt.changed, (op, size)
            assert all("gradient of" in finding.reason for finding in found), (op, size)
            seeded += spoilt.changed
    assert seeded >= 4


@pytest.mark.parametrize(
    ("forward", "args", "backward", "row"),
    [
        (aten.tanh.default, (x(6, 6),), aten.tanh_backward.default, [R, X(0), X(0)]),
        (aten.sigmoid.default, (x(6, 6),), aten.sigmoid_backward.default, [X(1), X(0), X(0)]),
        *(
            (aten.mse_loss.default, (x(6, 6), x(6, 6)), aten.mse_loss_backward.default, row)
            for row in ([X(0), R, X(0), X(0)], [X(1), R, X(1), X(1)], [P(), R, X(0), X(0)])
        ),
    ],
    ids=lambda value: str(value) if not isinstance(value, tuple) else "",
)
def test_wrong_rules_of_backward_are_found(
    forward: Any, args: Any, backward: Any, row: Any
) -> None:
    """The op itself is right, and its own rows say nothing of it."""
    with shardprop.temporary_rules():
        rule = shardprop.register_single_dim_rule(backward, override=True)
        rule(lambda *_: [row])
        found = ran(forward, *args).findings
    assert found
    assert all(not finding.reason.startswith("output") for finding in found)


def test_ranks_that_raise_alone_are_told_from_a_refusal(rules: None) -> None:
    """The others would wait for them."""
    with torch.library._scoped_library("shardprop_alone", "FRAGMENT") as library:

        def strict(x: torch.Tensor) -> torch.Tensor:
            if len(x) == 1:
                raise ValueError("nothing to compare with")
            return x + 1

        library.define("strict(Tensor x) -> Tensor")
        library.impl("strict", strict, "CompositeExplicitAutograd")
        op = torch.ops.shardprop_alone.strict.default
        shardprop.register_rule(op, "... -> ...")
        found = ran(op, x(5, 2))
        assert [finding.raises for finding in found.findings] == [True] * len(found.findings)
        reasons = {finding.rows: finding.reason for finding in found.findings}
        assert reasons[("S(0) -> ",)] == (
            "forward: rank 2 alone, in shardprop_alone.strict.default: "
            "ValueError: nothing to compare with"
        )
        whole = ran(op, x(8, 8))
        assert whole.findings == [] and whole.runs > 0


def test_what_all_ranks_refuse_is_counted_with_its_reason() -> None:
    found = ran(aten.bucketize.Tensor, x(6), torch.tensor([0.1, 0.5]))
    assert found.findings == [] and found.gradients == 0
    assert "gradients: no operand or result that has one" in found.skipped
    refused = ran(seeded_gradients.ops.square.default, x(6, 6))
    assert refused.runs == 0 and refused.findings == []
    (reason,) = refused.skipped
    assert reason.startswith("gradients: forward: ") and "sharding strategy" in reason


def test_what_has_no_derivative_by_an_operand_has_others() -> None:
    found = ran(aten.soft_margin_loss.default, x(6, 4), x(6, 4))
    assert found.gradients > 0
    assert any("not differentiable with respect to argument 'target'" in r for r in found.skipped)


def test_a_crash_is_no_good_news() -> None:
    with torch.library._scoped_library("shardprop_crash", "FRAGMENT") as library:

        def crash(x: torch.Tensor) -> torch.Tensor:
            if x.shape[0] == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return x + 1

        library.define("crash(Tensor x) -> Tensor")
        library.impl("crash", crash, "CompositeExplicitAutograd")
        op = torch.ops.shardprop_crash.crash.default
        with shardprop.temporary_rules():
            shardprop.register_single_dim_rule(op)(lambda *_: [[R, R]])
            settings = Settings(ranks=(3,), composed=(), missing=False, apart=True)
            assert check(op, (x(6, 4),), settings=settings).error is None
        with shardprop.temporary_rules():
            shardprop.register_single_dim_rule(op)(lambda *_: [[X(0), X(0)]])
            report = OpReport(str(op))
            from shardprop.verification.validate import check as module

            checker = module._Checker(report, settings, math.inf)
            checker._calls.append(Call(op, (x(6, 4),)))
            checker._carry_out()
        assert report.error == "a crash while DTensor carried out a call"


@pytest.mark.slow
def test_a_script_shows_a_wrong_gradient_with_torch_alone(tmp_path: Path) -> None:
    settings = Settings(ranks=(2,), composed=(), rule="torch", layouts=2)
    finding, *_ = ran(aten.mse_loss.default, x(6, 6), x(6, 6), settings=settings).findings
    assert "shardprop.enabled" not in finding.repro and len(finding.repro.splitlines()) < 90
    script = tmp_path / "wrong.py"
    script.write_text(finding.repro)
    shown = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path)
    assert shown.returncode == 1 and "Tensor-likes are not close!" in shown.stderr
    assert shown.stdout.startswith("rank 0: tensor(")
