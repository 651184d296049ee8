"""What a validation found: as text for people, as values for --json, as scripts in a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from rich.table import Table

from ...support.console import console_for_tables, counted, table
from ..report import listed
from ..settings import Settings
from .repro import DEFINE_HERE
from .results import Finding, OpReport

__all__ = ["exit_code", "print_reports", "values", "write_scripts"]

# Beyond so many ops only those are listed of which there is something to say.
_LISTED = 40
# Of the findings of one kind of one op.
_SHOWN = 8
# Why calls or rows were left out.
_REASONS = 3


def exit_code(reports: Sequence[OpReport], by_name: bool = True) -> int:
    """0 if every op was tried to its end and no claimed row and no run is wrong, else 1.

    Ops of which there is nothing to try count where they were asked for `by_name`.
    """
    if by_name and any(report.untried for report in reports):
        return 1
    return 1 if any(report.unsound or report.wrong or report.error for report in reports) else 0


def values(reports: Sequence[OpReport], settings: Settings, seconds: float) -> dict[str, object]:
    """Everything as JSON values.

    ``torch`` (its version), ``settings`` (fields of `Settings`), ``summary`` (``ops``, ``unsound``,
    ``raising``, ``missing``, ``wrong``, ``errors``, ``checks``, ``runs``, ``gradients``,
    ``untried``: of the ops of which there is nothing to try, how many there are by reason, and
    ``seconds``) and ``ops``, a list with the fields of `OpReport` for each op, its findings with
    the fields of `Finding`.
    """
    return {
        "torch": torch.__version__,
        "settings": asdict(settings),
        "summary": {
            **_counts(reports),
            "untried": {reason: len(ops) for reason, ops in _untried(reports).items()},
            "seconds": round(seconds, 2),
        },
        "ops": [asdict(report) for report in reports],
    }


def _counts(reports: Sequence[OpReport]) -> dict[str, int]:
    return {
        "ops": len(reports),
        "unsound": sum(len(report.unsound) for report in reports),
        "raising": sum(len(report.raising) for report in reports),
        "missing": sum(len(report.missing) for report in reports),
        "wrong": sum(len(report.wrong) for report in reports),
        "errors": sum(report.error is not None for report in reports),
        "checks": sum(report.checks for report in reports),
        "runs": sum(report.runs for report in reports),
        "gradients": sum(report.gradients for report in reports),
    }


def _untried(reports: Sequence[OpReport]) -> dict[str, list[str]]:
    """The ops of which there is nothing to try, by the reason, the most frequent one first."""
    found: dict[str, list[str]] = {}
    for report in reports:
        if report.untried:
            found.setdefault(report.untried, []).append(report.op)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def write_scripts(
    reports: Sequence[OpReport], folder: Path, module: Path | None = None, missing: bool = True
) -> dict[int, Path]:
    """Write the script of every finding that has one, those of `missing` rows if they are shown;
    the files by the findings' ids.

    `module` is what defines the ops that are not torch's; the scripts run it first, its folder on
    the path as if it had been run by itself: it may import a file beside it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: dict[int, Path] = {}
    for report in reports:
        numbers = Counter[str]()
        for finding in report.findings:
            if not finding.repro or (finding.kind == "missing" and not missing):
                continue
            numbers[finding.kind] += 1
            path = folder / f"{report.op}_{finding.kind}_{numbers[finding.kind]}.py"
            text = finding.repro
            if module is not None:
                text = text.replace(DEFINE_HERE, _running(module.resolve()))
            path.write_text(text)
            written[id(finding)] = path
    return written


def _running(module: Path) -> str:
    folder = f"__import__('sys').path.insert(0, {str(module.parent)!r})"
    return f"{folder}\n__import__('runpy').run_path({str(module)!r})"


def print_reports(
    reports: Sequence[OpReport],
    seconds: float,
    show_missing: bool = False,
    scripts: dict[int, Path] | None = None,
    files: str = "",
) -> None:
    """A table of the ops, then what was found of each; `files` are options that name the user's."""
    console = console_for_tables()
    tried = [report for report in reports if not report.untried]
    listed = [r for r in tried if r.error or r.findings] if len(tried) > _LISTED else tried
    if listed:
        console.print(_table(listed))
    if len(listed) < len(tried):
        console.print(f"and {len(tried) - len(listed)} ops of which nothing was found")
    for report in listed:
        advice = _advice(report, show_missing, files)
        for line in (*_details(report, show_missing, scripts or {}), *advice):
            console.print(line, markup=False, soft_wrap=True)
    for line in _untried_text(_untried(reports)):
        console.print(line, markup=False, soft_wrap=True)
    console.print()
    console.print(_summary(reports, seconds), markup=False, soft_wrap=True)


def _table(reports: Sequence[OpReport]) -> Table:
    figures = ("calls", "rows", "checks", "unsound", "raising", "missing", "s")
    shown = table(("op", "rule", *figures), right=range(2, 2 + len(figures)))
    for report in reports:
        numbers = (report.calls, report.rows, report.checks)
        found = len(report.unsound), len(report.raising), len(report.missing)
        shown.add_row(
            report.op,
            report.rule,
            *map(str, (*numbers, *found)),
            f"{report.seconds:.1f}",
            style="red" if report.unsound or report.wrong or report.error else None,
        )
    return shown


def _details(report: OpReport, show_missing: bool, scripts: dict[int, Path]) -> Iterator[str]:
    shown = [*report.unsound, *report.wrong, *(report.missing if show_missing else ())]
    if not shown and report.error is None:
        return
    yield ""
    yield report.op
    if report.error is not None:
        yield f"  not tried to its end: {report.error}"
    if report.error or show_missing:
        yield from _left_out(report)
    for findings in (report.unsound, report.wrong, report.missing if show_missing else []):
        yield from listed(
            findings,
            _SHOWN,
            lambda finding: _finding_text(finding, scripts.get(id(finding))),
            "  and {} more of the kind (--json has all)",
        )


def _untried_text(untried: dict[str, list[str]]) -> Iterator[str]:
    if untried:
        yield ""
        yield "Nothing to try on dense tensors of the CPU:"
    for reason, ops in untried.items():
        yield f"  {reason} ({len(ops)}): {', '.join(ops)}"


def _left_out(report: OpReport) -> Iterator[str]:
    """Why calls or rows were; the error that is told already is not told again."""
    error = report.error or ""
    reasons = [reason for reason in report.skipped if reason not in error]
    for reason in reasons[:_REASONS]:
        yield f"  left out: {reason} ({counted(report.skipped[reason], 'time')})"
    if len(reasons) > _REASONS:
        yield f"  and for {counted(len(reasons) - _REASONS, 'more reason')} (--json has all)"


def _advice(report: OpReport, show_missing: bool, files: str) -> Iterator[str]:
    """Where somebody's own rule is wrong or lacks rows, or there is none, one can be looked for."""
    discover = f"shardprop discover {report.op}{files}"
    shown = report.unsound or (show_missing and report.missing)
    if shown and report.rule == "registered rule":
        yield f"  which rows hold: {discover} --diff"
    elif report.rule == "none" and not report.error:
        yield f"  it has no rule; to have one found: {discover}"


def _finding_text(finding: Finding, script: Path | None) -> str:
    mesh = " x ".join(map(str, finding.mesh))
    origin = f" (from {', '.join(dict.fromkeys(finding.origins))})" if finding.origins else ""
    text = f"  {finding.kind}: {'; '.join(finding.rows)}{origin}\n    {finding.reason}"
    shown = f"\n    python {script}" if script is not None else ""
    return f"{text}\n    on {mesh} ranks, {finding.call}{shown}"


def _summary(reports: Sequence[OpReport], seconds: float) -> str:
    count = _counts(reports)
    unsound, missing, errors = count["unsound"], count["missing"], count["errors"]
    checks = counted(count["checks"], "check")
    parts = [f"{counted(len(reports), 'op')}, {checks} in {seconds:.1f} s"]
    if not count["checks"]:
        parts.append("nothing could be checked")
    elif not unsound:
        parts.append("no unsound row")
    else:
        wrong = sum(bool(report.unsound) for report in reports)
        since = f" ({count['raising']} since a rank raises)" if count["raising"] else ""
        parts.append(f"{counted(unsound, 'unsound row')} in {counted(wrong, 'op')}{since}")
    if count["runs"] or count["wrong"]:
        runs = f"{counted(count['runs'], 'run')} with {counted(count['gradients'], 'gradient')}"
        parts.append(f"{runs}, {count['wrong'] or 'none'} wrong")
    if missing:
        rows = "1 row that holds and is" if missing == 1 else f"{missing} rows that hold and are"
        parts.append(f"{rows} not claimed (--show-missing)")
    untried = sum(report.untried is not None for report in reports)
    if untried:
        parts.append(f"{counted(untried, 'op')} of which there is nothing to try")
    if errors:
        share = f" ({errors / len(reports):.1%} of all)" if len(reports) > _LISTED else ""
        end = "its end" if errors == 1 else "their end"
        parts.append(f"{counted(errors, 'op')} not tried to {end}{share}")
    return "; ".join(parts) + "."
