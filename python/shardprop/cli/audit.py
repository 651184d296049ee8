"""The command `shardprop audit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .common import AsJson, print_json
from .watched_script import (
    ArgumentsOfScript,
    FakeRanks,
    JsonFile,
    Script,
    check,
    reports,
    watched,
    write_json,
    written,
)

if TYPE_CHECKING:
    from .audit_findings import Audit

__all__ = ["audit"]


def audit(
    context: typer.Context,
    script: Script,
    arguments: ArgumentsOfScript = None,
    json_file: JsonFile = None,
    fake_ranks: FakeRanks = None,
    fail: Annotated[
        bool, typer.Option("--fail", help="End with 1 where torch alone is wrong.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a program and report, line by line, where torch alone would have silently given wrong
    values or gradients: the op, the layouts, the fault, and what was done instead.

    The script runs as `python SCRIPT ARGS` would, with shardprop enabled and its corrections on.
    A call is listed where it has a known fault of torch (docs/corrections.md) and torch, asked
    about the same operands, decides otherwise than shardprop; a redistribution, where torch's plan
    would move wrong data. Every call is decided anew, so the program is slower; a few steps are
    enough. The size of an error is not told, since nothing is computed by torch's decision.

    The report comes when the script ends, however it ends. What stands behind SCRIPT is the
    script's; our options come before it. Under torchrun rank 0 reports. With --json the script's
    own prints go to stderr. --fake-ranks 64 audits a program for 64 ranks on one machine:
    collectives send nothing, so values mean nothing, but decisions are the same.

    Examples:

    - `shardprop audit train.py --steps 2`: a program with an argument of its own
    - `shardprop audit --fail --fake-ranks 8 train.py`: for CI
    - `torchrun --nproc-per-node 4 -m shardprop audit --json-file audit.json train.py`

    Exit codes:

    - the script's own, 1 if it raises
    - 0: the script has none, whatever was found
    - 1: with --fail, torch alone is wrong somewhere; a report cannot be written
    - 2: the request makes no sense: no such script
    """
    from ..inspection.tracing.session import corrected_calls
    from .audit_findings import Audit

    given = arguments or []
    check(context, script, given, fake_ranks, {"--json-file": json_file})
    with watched(script, given, corrected_calls(), fake_ranks=fake_ranks, keeps_stdout=as_json) as (
        trace,
        code,
    ):
        found = Audit(trace)
        if reports():
            _report(found, json_file, as_json)
    raise typer.Exit(code or (1 if fail and found.findings else 0))


def _report(found: Audit, json_file: Path | None, as_json: bool) -> None:
    values = found.to_json()
    if as_json:
        print_json(values)
    else:
        typer.echo(str(found))
    with written(json_file):
        if json_file is not None:
            write_json(json_file, values)
