"""The long run: `python -m tests.python.parity.run --cases 200000 --seed 1 --procs 2`.

Exits with 1 if shardprop and torch differ anywhere outside the known differences, or if a known
difference did not occur.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from .cases import case_at, coverage
from .known import KNOWN
from .op_choice import UNREACHABLE
from .oracle import shardprop_decide, shardprop_enabled, torch_decide
from .outcome import render
from .registry import find_op, single_dim_entries
from .runner import SUBJECTS, Report, Tally, compare, run_many
from .topology import set_devices_per_host

_ASPECTS = ("devices per host", "mesh ndim", "placements", "form", "family")


def main() -> int:
    options = _parse()
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    if options.coverage:
        return _show_coverage(console)
    if options.replay:
        set_devices_per_host(options.devices_per_host)
        return _replay(console, options)
    started = time.monotonic()
    report = _run(console, options)
    _summarise(console, report, time.monotonic() - started)
    missing = [known.name for known in KNOWN if not report.excused[known.name]]
    for name in missing:
        console.print(f"the known difference {name!r} did not occur: delete it?", style="red")
    return 1 if report.total.different or missing else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--procs", type=int, default=os.cpu_count() or 1, help="0: this process")
    parser.add_argument("--subject", choices=SUBJECTS, default="shardprop")
    parser.add_argument("--op", help='cases of one op only, e.g. "aten.add.Tensor"')
    parser.add_argument("--replay", metavar="SEED:INDEX", help="show both answers to one case")
    parser.add_argument("--devices-per-host", type=int, default=1, help="for --replay")
    parser.add_argument("--coverage", action="store_true", help="list ops that cannot be drawn")
    return parser.parse_args()


def _run(console: Console, options: argparse.Namespace) -> Report:
    report = Report()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("parity", total=options.cases)
        chunks = run_many(options.seed, options.cases, options.procs, options.subject, options.op)
        for chunk in chunks:
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
        ("known differences", report.excused),
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
    case = case_at(seed, index, op=find_op(options.op) if options.op else None)
    console.print(str(case), markup=False)
    theirs = torch_decide(case)
    console.print("torch\n" + render(theirs), markup=False)
    if options.subject == "torch":
        return 0
    with shardprop_enabled():
        ours = shardprop_decide(case)
    console.print("shardprop\n" + render(ours), markup=False)
    text = compare(case, theirs, ours)
    console.print("equal" if text is None else f"differs in {theirs.differing(ours)}")
    return 0 if text is None else 1


def _show_coverage(console: Console) -> int:
    missing = coverage()
    total = len(single_dim_entries())
    console.print(f"{total - len(missing)} of {total} single-dim ops can be drawn")
    for name, reason in missing.items():
        console.print(f"{name}: {UNREACHABLE.get(name, reason)}", markup=False)
    return 0 if set(missing) <= set(UNREACHABLE) else 1


if __name__ == "__main__":
    sys.exit(main())
