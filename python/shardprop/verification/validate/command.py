"""The validation that the command line asks for."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ..._torch import OpOverload
from ..calls.call import Call
from ..calls.samples import Samples
from ..calls.written import WRITTEN
from ..files import rules_registered_by
from ..names import overload
from ..pool import run_all
from ..report import collected
from ..request import Request, ops_of, own_calls, settings_of
from ..settings import Settings
from .check import check_op
from .plans import check_plans
from .report import exit_code, print_reports, values, write_scripts
from .results import OpReport
from .untried import why_untried

__all__ = ["run"]

# In the place of an op's name, and in the report.
_PLANS = "redistribute"

# Of an op's time limit, what is left to finish the call that it is at.
_SPARE = 0.2


def run(request: Request, as_json: bool = False, show_missing: bool = False) -> int:
    """Validate and print; the exit code.

    Raises:
        ShardpropError: the request makes no sense.
    """
    start = time.monotonic()
    scripts_wanted = as_json or request.repro is not None
    settings = replace(settings_of(request), scripts=scripts_wanted)
    registered: list[OpOverload] = []
    if request.module is not None:
        registered = rules_registered_by(request.module, needed=not request.ops)
    own = own_calls(request)  # before the names are looked up: the file may bring the ops
    ops = ops_of(request, registered)
    reports = collected(_reports(ops, settings, own, request), len(ops) + request.plans)
    seconds = time.monotonic() - start
    scripts: dict[int, Path] = {}
    if request.repro is not None:
        scripts = write_scripts(
            reports, request.repro, request.module, missing=as_json or show_missing
        )
    if as_json:
        print(json.dumps(values(reports, settings, seconds), indent=2))
    else:
        print_reports(reports, seconds, show_missing, scripts, _files(request))
    return exit_code(reports, by_name=not request.every_op)


def _files(request: Request) -> str:
    """The files of a request, as another command takes them."""
    files = (("--module", request.module), ("--samples", request.samples))
    return "".join(f" {option} {shlex.quote(str(file))}" for option, file in files if file)


def _reports(
    ops: Sequence[OpOverload],
    settings: Settings,
    own: Callable[[OpOverload], Iterable[Call]] | None,
    request: Request,
) -> Iterator[OpReport]:
    """Reports of the ops as they are done, each made in a process of its own."""
    # What was once found of torch's rules is found again, of one op or of all.
    samples = Samples(ops, settings.seed, own, every_sample=settings.rule == "torch")

    def work(name: str) -> OpReport:
        deadline = time.monotonic() + request.time_limit * (1 - _SPARE)
        if name == _PLANS:
            return check_plans(seed=settings.seed, deadline=deadline)
        op = overload(name)
        report = _check(op, samples.calls(op), settings, deadline)
        if report.calls == 0 and own is None and name not in WRITTEN:
            report.untried = why_untried(op)
            report.error = None if report.untried else report.error
        return report

    names = [*map(str, ops), *([_PLANS] if request.plans else [])]
    yield from run_all(work, names, OpReport, request.jobs, request.time_limit)


def _check(op: OpOverload, calls: Sequence[Call], settings: Settings, deadline: float) -> OpReport:
    if not calls:
        error = "no call is known that it takes; give some with --samples FILE"
        return OpReport(str(op), error=error)
    report = check_op(op, calls, settings, deadline)
    report.error = report.error or _left_out(report)
    if report.error and all(call.is_made_up for call in calls):
        report.error += "; the calls were made up: give the op's own with --samples FILE"
    return report


def _left_out(report: OpReport) -> str | None:
    """Why a report without findings is no good news, if so."""
    raised = [reason for reason in report.skipped if reason.startswith("the rule raises")]
    if raised:
        return raised[0]
    return None if report.calls else f"no call could be tried: {report.reasons}"
