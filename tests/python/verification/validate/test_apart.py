"""A crash of the work apart costs no more than its result."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
import torch

from shardprop.verification.calls.call import Call
from shardprop.verification.crash_isolation import Lost, apart, last_apart
from shardprop.verification.settings import Settings
from shardprop.verification.validate.check import check_op


def test_the_result_comes_back() -> None:
    assert apart(lambda: {"pid": os.getpid()})["pid"] != os.getpid()


def test_a_crash_is_told() -> None:
    with pytest.raises(Lost, match="ended by SIGKILL"):
        apart(lambda: os.kill(os.getpid(), signal.SIGKILL))


def test_an_error_is_told() -> None:
    with pytest.raises(Lost, match="raised an error"):
        apart(lambda: 1 // 0)


def test_work_past_its_deadline_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardprop.verification.crash_isolation._GRACE", 0.1)
    with pytest.raises(Lost, match="ended by SIGALRM"):
        apart(lambda: time.sleep(30), time.monotonic())


@pytest.mark.slow
def test_missing_rows_are_the_same_apart() -> None:
    op = torch.ops.aten.add.Tensor
    calls = [Call(op, (torch.randn(4, 6), torch.randn(6)))]
    inside, outside = (check_op(op, calls, Settings(apart=apart)) for apart in (False, True))
    assert inside.findings == outside.findings
    assert len(inside.missing) > 0
    assert inside.checks == outside.checks


def test_of_steps_that_crash_the_last_one_is_kept() -> None:
    def steps() -> Iterator[int]:
        yield 1
        yield 2
        os.kill(os.getpid(), signal.SIGKILL)
        yield 3

    assert last_apart(steps) == 2
    assert last_apart(lambda: iter([4, 5])) == 5
    assert last_apart(lambda: (1 // 0 for _ in "x")) is None
