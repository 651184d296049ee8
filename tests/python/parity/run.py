"""The long run: `python -m tests.python.parity.run --cases 200000 --seed 1 --procs 2`.

Exits with 1 if shardprop without corrections and torch differ anywhere, if corrections change a
decision that is none of theirs, or if one changed nothing though it should have.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import replace

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import shardprop
from shardprop.corrections.by_op import CORRECTIONS

from .cases import SAMPLES, Draw, case_at
from .corrected import is_due, why_another
from .coverage import Coverage, coverage_of, draw_only, opinfos_without_calls, ops_without_calls
from .op_choice import UNREACHABLE
from .oracle import shardprop_decide, torch_decide
from .outcome import render
from .registry import Rule
from .runner import SUBJECTS, Report, Tally, compare, run_many
from .topology import set_devices_per_host

_ASPECTS = ("devices per host", "mesh ndim", "placements", "form", "samples", "rule", "family")


def main() -> int:
    options = _parse()
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    if options.coverage:
        return _show_coverage(console, coverage_of(draw_only(_draw(options), options.cases)))
    if options.replay:
        set_devices_per_host(options.devices_per_host)
        return _replay(console, options)
    started = time.monotonic()
    report = _run(console, options)
    _summarise(console, report, time.monotonic() - started)
    idle = [c.name for c in CORRECTIONS if not report.corrected[c.name] and is_due(c, report.ops)]
    missing = idle if options.subject == "shardprop" else []
    for name in missing:
        console.print(f"the correction {name!r} changed nothing: delete it?", style="red")
    return 1 if report.total.different or missing else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--procs", type=int, default=os.cpu_count() or 1, help="0: this process")
    parser.add_argument("--subject", choices=SUBJECTS, default="shardprop")
    parser.add_argument("--rule", choices=[r.value for r in Rule], help="ops torch decides so only")
    parser.add_argument("--op", help='cases of one op only, e.g. "aten.add.Tensor"')
    parser.add_argument("--samples", choices=SAMPLES, default=Draw.samples, help="source of calls")
    parser.add_argument("--layouts", type=int, default=1, metavar="K", help="cases per call")
    parser.add_argument("--replay", metavar="SEED:INDEX", help="show both answers to one case")
    parser.add_argument("--devices-per-host", type=int, default=1, help="for --replay")
    parser.add_argument("--coverage", action="store_true", help="count ops, decide nothing")
    return parser.parse_args()


def _draw(options: argparse.Namespace) -> Draw:
    rule = Rule(options.rule) if options.rule else None
    return Draw(options.seed, options.samples, options.layouts, rule, options.op)


def _run(console: Console, options: argparse.Namespace) -> Report:
    report = Report()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("parity", total=options.cases)
        for chunk in run_many(_draw(options), options.cases, options.procs, options.subject):
            for text in chunk.differences[: max(0, 10 - len(report.differences))]:
                progress.console.print(text, markup=False, highlight=False)
            report.add(chunk)
            progress.update(
                task,
                completed=report.total.cases,
                description=f"parity, {report.total.different} differences",
            )
    return report


def _summarise(console: Console, report: Report, seconds: float) -> None:
    table = Table(box=None)
    for name in ("", "cases", "errors", "redistribute", "by the core", "differences"):
        table.add_column(name, justify="right" if name else "left")
    for aspect in _ASPECTS:
        table.add_row(f"[bold]{aspect}")
        rows = sorted((value, t) for (name, value), t in report.tallies.items() if name == aspect)
        for value, tally in rows:
            table.add_row(f"  {value}", *_cells(tally))
    table.add_row("[bold]all", *_cells(report.total))
    console.print(table)
    for title, counts in (
        ("delegated to torch", report.delegated),
        ("fell back", report.fallbacks),
        ("corrected", report.corrected),
    ):
        for reason, count in counts.most_common():
            console.print(f"{title}: {count} x {reason}", markup=False)
    each = 1000 / max(report.total.cases, 1)
    console.print(
        f"{report.total.cases} cases of {len(report.ops)} ops in {seconds:.0f} s; ms per case: "
        f"draw {report.draw_seconds * each:.1f}, torch {report.torch_seconds * each:.1f}, "
        f"subject {report.subject_seconds * each:.1f}"
    )


def _cells(tally: Tally) -> list[str]:
    def share(count: int) -> str:
        return f"{100 * count / max(tally.cases, 1):.1f}%"

    return [
        str(tally.cases),
        share(tally.errors),
        share(tally.redistributed),
        share(tally.by_core),
        str(tally.different),
    ]


def _replay(console: Console, options: argparse.Namespace) -> int:
    seed, index = map(int, options.replay.split(":"))
    case = case_at(replace(_draw(options), seed=seed), index)
    console.print(str(case), markup=False)
    theirs = torch_decide(case)
    console.print("torch\n" + render(theirs), markup=False)
    if options.subject == "torch":
        return 0
    with shardprop.enabled(corrections=False):
        exact = shardprop_decide(case)
    console.print("shardprop without corrections\n" + render(exact), markup=False)
    text = compare(case, theirs, exact)
    console.print("equal" if text is None else f"differs in {theirs.differing(exact)}")
    with shardprop.enabled():
        corrected = shardprop_decide(case)
        why = why_another(case) if exact.differing(corrected) else None
    if exact.differing(corrected):
        console.print("shardprop\n" + render(corrected), markup=False)
        console.print(f"corrected: {why or 'by nothing that says so'}", markup=False)
    return 0 if text is None and (why or not exact.differing(corrected)) else 1


def _show_coverage(console: Console, coverage: Coverage) -> int:
    def show(title: str, lines: Iterable[str]) -> None:
        console.print(f"[bold]{title}")
        for line in lines:
            console.print(f"  {line}", markup=False, highlight=False)

    for rule, counted in coverage.by_rule().items():
        total = sum(count for _, count in counted)
        show(
            f"{rule.value}: {len(counted)} ops in {total} cases", (f"{c} x {n}" for n, c in counted)
        )
    show("ops with a rule, never drawn", (f"{n}: {why}" for n, why in coverage.never.items()))
    failed = opinfos_without_calls()
    show("sample inputs that give nothing to decide", (f"{n}: {why}" for n, why in failed.items()))
    return 0 if set(ops_without_calls()) <= set(UNREACHABLE) else 1


if __name__ == "__main__":
    sys.exit(main())
