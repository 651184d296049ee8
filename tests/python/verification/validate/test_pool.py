"""Crashes, hangs and errors of single ops leave the others alone."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time

import pytest

from shardprop.verification.pool import run_all
from shardprop.verification.validate.results import OpReport


def work(op: str) -> OpReport:
    match op:
        case "segfaults":
            ctypes.string_at(0)
        case "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exits":
            os._exit(3)
        case "hangs":
            time.sleep(60)
        case "raises":
            raise ValueError("of its own")
    return OpReport(op, calls=1)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_what_goes_wrong_is_reported_and_the_rest_is_done(jobs: int) -> None:
    good = [f"good {number}" for number in range(8)]
    bad = ["segfaults", "is killed", "exits", "hangs", "raises"]
    ops = [op for pair in zip(good, bad, strict=False) for op in pair] + good[len(bad) :]
    reports = {report.op: report for report in run_all(work, ops, OpReport, jobs, time_limit=1.0)}
    assert sorted(reports) == sorted(ops)
    assert all(reports[op].error is None and reports[op].calls == 1 for op in good)
    assert reports["segfaults"].error == "crashed: signal 11 (Segmentation fault)"
    assert reports["is killed"].error == "crashed: signal 9 (Killed)"
    assert reports["exits"].error == "crashed: exit code 3"
    assert reports["hangs"].error == "not done within 1 s"
    assert reports["raises"].error == "ValueError: of its own"


def test_many_crashes_in_a_row_are_survived() -> None:
    def crash(op: str) -> OpReport:
        if int(op) % 3:
            os.kill(os.getpid(), signal.SIGSEGV)
        return OpReport(op)

    reports = {
        report.op: report.error for report in run_all(crash, [*map(str, range(12))], OpReport, 2)
    }
    assert len(reports) == 12
    crashed = [op for op, error in reports.items() if error is not None]
    assert sorted(map(int, crashed)) == [n for n in range(12) if n % 3]


def test_workers_know_what_this_process_knows() -> None:
    known = object()

    def look(op: str) -> OpReport:
        return OpReport(op, rule=repr(known))

    assert [report.rule for report in run_all(look, ["an op"], OpReport, 1)] == [repr(known)]


def test_no_ops_need_no_workers() -> None:
    assert list(run_all(work, [], OpReport)) == []


@pytest.mark.slow
def test_interruption_leaves_no_process_behind() -> None:
    program = (
        "import os, signal, sys, time\n"
        # Ignored where the tests were started in the background by a shell.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from shardprop.verification.pool import run_all\n"
        "from shardprop.verification.report import Report\n"
        "def work(op):\n"
        "    os.write(1, f'{os.getpid()}\\n'.encode())\n"
        "    time.sleep(20)\n"
        "list(run_all(work, ['a', 'b'], Report, 2))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        workers = [int(process.stderr.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        process.stderr.read()
        assert process.wait(20) != 0
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)
