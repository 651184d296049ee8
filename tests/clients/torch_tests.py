"""Runs torch's own DTensor tests twice, by torch alone and with shardprop, and compares them.

    python -m tests.clients.torch_tests PYTORCH/test/distributed/tensor

The files are not part of this repository: give the folder of a checkout of pytorch whose version is
that of the installed torch. A test that fails both times (the table counts expected failures there)
belongs to another version, or to a machine with GPUs. A test that differs is run twice more each
way, alone; if it does not end so each time, it is unsteady. Ends with 1 if a test differs, or if
shardprop decided nothing.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

HEAD = (
    "| file | tests | passed in both | failed in both | skipped in both | differing | unsteady | "
    "cut off | decisions by the core | others |",
    "|---|" + "---:|" * 9,
)
_REPEATS = 2
_LAST_SECONDS = 20.0
_COUNTED = Path(__file__).with_name("counted")
_PYTEST = (
    *(sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--noconftest"),
    *("-p", "no:cacheprovider", "-p", "no:benchmark"),
)
_NUMBER = re.compile(r"0x[0-9a-f]+|[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_LAST_ERROR = re.compile(r"^(?:E +)?([\w.]*(?:Error|Exception|Exit|Interrupt)\b.*)", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """What became of a test: ``passed``, ``failed``, ``skipped`` or ``xfailed``; of a failure, the
    first line of the error."""

    what: str
    error: str = ""

    def is_like(self, other: Outcome) -> bool:
        """Is the other the same, but for numbers in its error?"""
        return self.what == other.what and _NUMBER.sub("", self.error) == _NUMBER.sub(
            "", other.error
        )


Pair = tuple[Outcome, Outcome]
"""By torch alone, and with shardprop."""


@dataclass(frozen=True)
class Run:
    """One run of a file.

    Attributes:
        outcomes: Of each test that came to its end, by name.
        ended: With which code pytest ended; None if its time was over, negative if it died.
        decided: How many ops the core decided, in all processes that ended by themselves.
        others: How many were left to torch or refused there.
    """

    outcomes: dict[str, Outcome]
    ended: int | None
    decided: int
    others: int


@dataclass
class Comparison:
    """Two runs of a file.

    Attributes:
        name: Of the file.
        ours: The run with shardprop.
        counts: Tests by what became of them: as `Outcome` says if that is the same in both, else
            ``differing``, ``unsteady`` if it is not so each time, ``cut off`` if the time was over.
        differing: A line for each test that differs, and its errors.
        unsteady: The same of tests that end now so, now so.
    """

    name: str
    ours: Run
    counts: Counter[str] = field(default_factory=Counter)
    differing: list[str] = field(default_factory=list)
    unsteady: list[str] = field(default_factory=list)

    def row(self) -> str:
        """The row of the table."""
        counts = self.counts
        cells = (
            *(self.name, counts.total(), counts["passed"]),
            *(counts["failed"] + counts["xfailed"], counts["skipped"], counts["differing"]),
            *(counts["unsteady"], counts["cut off"], self.ours.decided, self.ours.others),
        )
        return f"| {' | '.join(map(str, cells))} |"


def main(
    folder: Annotated[
        Path, typer.Argument(exists=True, help="Of torch's test files, or one file.")
    ],
    seconds: Annotated[float, typer.Option(help="At most so long for a run of a file.")] = 300.0,
    only: Annotated[str, typer.Option(help="As pytest's -k.")] = "",
) -> None:
    """Print the table, and each test that differs."""
    files = [folder] if folder.is_file() else sorted(folder.rglob("test_*.py"))
    root = folder.parent if folder.is_file() else folder
    print(f"torch {torch.__version__}\n", *HEAD, sep="\n", flush=True)
    found: list[Comparison] = []
    for file in files:
        found.append(compare(file, root, seconds, ("-k", only) if only else ()))
        print(found[-1].row(), flush=True)
    differing = [line for one in found for line in one.differing]
    unsteady = [line for one in found for line in one.unsteady]
    is_on = any(one.ours.decided for one in found)
    print("\nDiffering:", *differing, "\nUnsteady:", *unsteady, sep="\n")
    if not is_on:
        print("shardprop decided nothing: it was not on", file=sys.stderr)
    raise typer.Exit(bool(differing) or not is_on)


def compare(file: Path, root: Path, seconds: float, more: Sequence[str] = ()) -> Comparison:
    """Run a file by torch alone and with shardprop; a test that differs, alone and more often.

    Args:
        file: Of tests.
        root: The folder from which the file is named.
        seconds: At most so long for a run.
        more: Further arguments for pytest.
    """
    alone, ours = (run(file, seconds, is_on, more) for is_on in (False, True))
    assert alone.decided == 0, f"shardprop was on for torch alone: {file}"
    found = Comparison(file.relative_to(root).as_posix(), ours)
    missing = Outcome("cut off" if None in (alone.ended, ours.ended) else "missing")
    unlike: dict[str, Pair] = {}
    for name in sorted(alone.outcomes.keys() | ours.outcomes.keys()):
        before, after = (of.outcomes.get(name, missing) for of in (alone, ours))
        if "cut off" in (before.what, after.what):
            found.counts["cut off"] += 1
        elif before.is_like(after):
            found.counts[before.what] += 1
        else:
            unlike[name] = before, after
    if alone.ended != ours.ended and None not in (alone.ended, ours.ended) and not unlike:
        found.differing.append(f"- {found.name}: pytest ended with {alone.ended}, {ours.ended}")
    steady = steady_of(file, seconds, unlike)
    for name, pair in unlike.items():
        found.counts["differing" if name in steady else "unsteady"] += 1
        said = found.differing if name in steady else found.unsteady
        said.append(f"- {name}: {pair[0].what} alone, {pair[1].what} with shardprop")
        said += [f"  {outcome.error}" for outcome in pair if outcome.error]
    return found


def steady_of(file: Path, seconds: float, unlike: Mapping[str, Pair]) -> set[str]:
    """Tests that end so again, each time, without the others of the file before them."""
    steady = set(unlike)
    for is_on in (False, True) * _REPEATS if unlike else ():
        again = run(file, seconds, is_on, names=list(unlike)).outcomes
        missing = Outcome("missing")
        steady &= {n for n, pair in unlike.items() if again.get(n, missing).is_like(pair[is_on])}
    return steady


def run(
    file: Path,
    seconds: float,
    is_on: bool,
    more: Sequence[str] = (),
    names: Sequence[str] = (),
) -> Run:
    """Run a file, or some tests of it, in processes that have shardprop or not.

    Args:
        file: Of tests.
        seconds: All processes are ended after so long.
        is_on: Set SHARDPROP=1.
        more: Further arguments for pytest.
        names: Of the tests; all if there are none.
    """
    inside = [name.partition("::")[2] for name in names] or [""]
    tests = [f"{file}::{name}" if name else str(file) for name in inside]
    with tempfile.TemporaryDirectory(prefix="shardprop-torch-tests-") as place:
        log, counts = Path(place, "log.jsonl"), Path(place, "counts")
        arguments = (f"--rootdir={file.parent}", f"--report-log={log}", *more, *tests)
        with subprocess.Popen(
            (*_PYTEST, *arguments),
            env=_environment(counts, is_on),
            cwd=place,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            ended = None
            try:
                ended = process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)  # it ends as usual, and says what was decided
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LAST_SECONDS)
            finally:
                # With the ranks that it started, of which some may wait for others.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        return Run(_outcomes(log), ended, *_totals(counts))


def _environment(counts: Path, is_on: bool) -> Mapping[str, str]:
    path = os.pathsep.join(filter(None, (str(_COUNTED), os.environ.get("PYTHONPATH"))))
    steady = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "GLOO_SOCKET_IFNAME": "lo"}
    asked = {"SHARDPROP": str(int(is_on)), "SHARDPROP_COUNTS": str(counts), "PYTHONPATH": path}
    return steady | os.environ | asked


def _outcomes(log: Path) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    for line in lines:
        with suppress(json.JSONDecodeError):  # the last one may be half written
            entry: dict[str, Any] = json.loads(line)
            kind = entry["$report_type"]
            if kind == "TestReport" or (kind == "CollectReport" and entry["outcome"] == "failed"):
                outcome = _outcome(entry)
                before = found.get(entry["nodeid"], outcome)
                if before.what == "passed" or outcome.what == "failed":
                    found[entry["nodeid"]] = outcome
                else:
                    found[entry["nodeid"]] = before
    return found


def _outcome(entry: Mapping[str, Any]) -> Outcome:
    what = entry["outcome"]
    if what == "skipped" and "wasxfail" in entry:
        what = "xfailed"
    text = entry.get("longrepr") if what == "failed" else ""
    crash = text.get("reprcrash") if isinstance(text, dict) else None
    message = crash["message"] if crash else str(text or "")
    errors = _LAST_ERROR.findall(message)
    return Outcome(what, (errors or message.splitlines() or [""])[-1][:300])


def _totals(counts: Path) -> tuple[int, int]:
    lines = counts.read_text(encoding="utf-8").splitlines() if counts.exists() else []
    numbers = [tuple(map(int, line.split())) for line in lines]
    return sum(decided for decided, _ in numbers), sum(others for _, others in numbers)


if __name__ == "__main__":
    typer.run(main)
