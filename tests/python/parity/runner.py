"""Runs cases in chunks, in this process or in several, and adds up what came of them.

Each case is decided three times: by torch, by shardprop without corrections, which has to equal it,
and with corrections, which may differ where one says so.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import shlex
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field

from torch._subclasses import FakeTensorMode

import shardprop
from shardprop import Stats
from shardprop.propagation.propagator import counters

from .case import Case
from .cases import Draw, case_at
from .corrected import why_another
from .oracle import shardprop_decide, torch_decide
from .outcome import Outcome, render
from .processes import end_with_parent, environment
from .recorded import Library, library, provide
from .registry import rule_of
from .topology import set_devices_per_host

SUBJECTS = ("shardprop", "torch")  # "torch" compares torch with itself: a check of the tests
_CHUNK = 250
_MAX_REPORTED = 20  # differences shown per chunk


@dataclass(frozen=True)
class Job:
    """Cases `start` .. `start + count` of a draw."""

    draw: Draw
    start: int
    count: int
    subject: str = "shardprop"
    devices_per_host: int = 1


@dataclass
class Tally:
    """Counts over a group of cases."""

    cases: int = 0
    errors: int = 0
    redistributed: int = 0
    by_core: int = 0  # decided by the core: neither delegated nor fallen back
    different: int = 0

    def add(self, other: Tally) -> None:
        for name in vars(other):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass
class Report:
    """What a run found. Tallies are keyed by (aspect, value), e.g. ("mesh ndim", "2")."""

    tallies: dict[tuple[str, str], Tally] = field(default_factory=lambda: defaultdict(Tally))
    differences: list[str] = field(default_factory=list)
    corrected: Counter[str] = field(default_factory=Counter)
    delegated: Counter[str] = field(default_factory=Counter)
    fallbacks: Counter[str] = field(default_factory=Counter)
    ops: Counter[str] = field(default_factory=Counter)
    torch_seconds: float = 0.0
    subject_seconds: float = 0.0
    draw_seconds: float = 0.0

    @property
    def total(self) -> Tally:
        return self.tallies["all", ""]

    def add(self, other: Report) -> None:
        for key, tally in other.tallies.items():
            self.tallies[key].add(tally)
        self.differences += other.differences
        for name in ("ops", "corrected", "delegated", "fallbacks"):
            getattr(self, name).update(getattr(other, name))
        for name in ("torch_seconds", "subject_seconds", "draw_seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def run_job(job: Job) -> Report:
    """Draws the job's cases, asks torch, then the subject, and compares."""
    report = Report()
    started = time.perf_counter()
    cases = [case_at(job.draw, job.start + i) for i in range(job.count)]
    drawn = time.perf_counter()
    theirs = [torch_decide(case) for case in cases]
    asked = time.perf_counter()
    exact: list[Outcome] = []
    with _decider(job.subject, corrections=False) as decide:
        before = counters()
        for case, expected in zip(cases, theirs, strict=True):
            exact.append(decide(case))
            after = counters()
            _count(report, job, case, expected, exact[-1], before, after)
            before = after
    with _decider(job.subject, corrections=True) as decide:
        for case, expected in zip(cases, exact, strict=True):
            _count_corrected(report, job, case, expected, decide(case))
    # torch keeps the metadata of every fake call for good; 100,000 cases would take gigabytes.
    FakeTensorMode.cache_clear()
    report.draw_seconds += drawn - started
    report.torch_seconds += asked - drawn
    report.subject_seconds += time.perf_counter() - asked
    return report


def run_many(
    draw: Draw,
    cases: int,
    procs: int,
    subject: str = "shardprop",
    hosts: Sequence[int] = (1, 8),
) -> Iterator[Report]:
    """Yields a report per chunk. With `procs` 0 everything runs here, on hosts of one device;
    otherwise each host size gets its share of the processes and of the chunks."""
    sizes = [1] if procs == 0 else list(hosts)[: max(1, min(procs, len(hosts)))]
    chunk = -(-_CHUNK // draw.layouts) * draw.layouts  # whole calls
    jobs = [
        Job(draw, start, min(chunk, cases - start), subject, sizes[i % len(sizes)])
        for i, start in enumerate(range(0, cases, chunk))
    ]
    if procs == 0:
        yield from map(run_job, jobs)
        return
    with contextlib.ExitStack() as stack:
        recorded = None if draw.samples == "built" else library()
        # Sets of placements iterate in an order that depends on the hash seed; both sides of a case
        # run in one process, and a replay needs the same seed.
        stack.enter_context(environment("PYTHONHASHSEED", str(hash_seed(draw.seed))))
        futures: dict[Future[Report], Job] = {}
        for i, size in enumerate(sizes):
            workers = procs // len(sizes) + (i < procs % len(sizes))
            pool = stack.enter_context(
                ProcessPoolExecutor(
                    workers,
                    mp_context=multiprocessing.get_context("spawn"),
                    initializer=_start_worker,
                    initargs=(size, recorded),
                )
            )
            for job in jobs[i :: len(sizes)]:
                futures[pool.submit(run_job, job)] = job
        for future in as_completed(futures):
            try:
                yield future.result()
            except Exception as error:
                raise RuntimeError(f"the worker of {futures[future]} failed") from error


def hash_seed(seed: int) -> int:
    return seed % 4294967295


def replay_command(case: Case, job: Job) -> str:
    draw = job.draw
    command = f"PYTHONHASHSEED={hash_seed(draw.seed)} python -m tests.python.parity.run"
    command += f" --replay {case.name} --subject {job.subject}"
    for option, value, default in (
        ("samples", draw.samples, Draw.samples),
        ("layouts", draw.layouts, Draw.layouts),
        ("rule", draw.rule and shlex.quote(draw.rule.value), Draw.rule),
        ("op", draw.op, Draw.op),
        ("devices-per-host", job.devices_per_host, Job.devices_per_host),
    ):
        command += "" if value == default else f" --{option} {value}"
    return command


def compare(
    case: Case, theirs: Outcome, ours: Outcome, names: tuple[str, str] = ("torch", "ours")
) -> str | None:
    """The two outcomes side by side if they differ."""
    fields = theirs.differing(ours)
    if not fields:
        return None
    return (
        f"{case.name} {case}\n  differs in {', '.join(fields)}\n"
        f"  {names[0]}\n{render(theirs)}\n  {names[1]}\n{render(ours)}"
    )


# Details ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _decider(subject: str, corrections: bool) -> Iterator[Callable[[Case], Outcome]]:
    """The function that decides a case."""
    if subject == "torch":
        yield torch_decide
        return
    with shardprop.enabled(corrections=corrections):
        yield shardprop_decide


def _count_corrected(
    report: Report, job: Job, case: Case, exact: Outcome, corrected: Outcome
) -> None:
    """A decision with corrections, beside that without."""
    text = compare(case, exact, corrected, ("without corrections", "with corrections"))
    if text is None:
        return
    why = why_another(case)
    if why is not None:
        report.corrected[why] += 1
        return
    report.total.different += 1
    _tell(report, f"{text}\n  {replay_command(case, job)}")


def _tell(report: Report, difference: str) -> None:
    if len(report.differences) < _MAX_REPORTED:
        report.differences.append(difference)


def _count(
    report: Report,
    job: Job,
    case: Case,
    theirs: Outcome,
    ours: Outcome,
    before: Stats,
    after: Stats,
) -> None:
    delegated = Counter(after.delegated) - Counter(before.delegated)
    fallbacks = Counter(after.fallbacks) - Counter(before.fallbacks)
    report.delegated.update(delegated)
    report.fallbacks.update(fallbacks)
    report.ops[str(case.op)] += 1
    text = compare(case, theirs, ours)
    if text:
        _tell(report, f"{text}\n  {replay_command(case, job)}")
    one = Tally(
        cases=1,
        errors=theirs.error is not None,
        redistributed=theirs.needs_redistribute,
        by_core=not delegated and not fallbacks and job.subject == "shardprop",
        different=bool(text),
    )
    for key in (
        ("all", ""),
        ("samples", case.samples),
        ("rule", rule_of(case.op).value),
        ("family", case.family),
        ("form", case.form.value),
        ("mesh ndim", str(case.mesh.ndim)),
        ("placements", case.kind.value),
        ("devices per host", str(job.devices_per_host)),
    ):
        report.tallies[key].add(one)


def _start_worker(devices_per_host: int, recorded: Library | None) -> None:
    faulthandler.enable()
    end_with_parent()
    set_devices_per_host(devices_per_host)
    if recorded is not None:
        provide(recorded)
