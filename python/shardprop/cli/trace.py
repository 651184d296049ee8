"""The command `shardprop trace`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .common import AsJson, print_json
from .policy import PolicyOption, TopologyOption
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
    from ..inspection.tracing import Trace

__all__ = ["trace"]


def trace(
    context: typer.Context,
    script: Script,
    arguments: ArgumentsOfScript = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as one HTML file.")
    ] = None,
    json_file: JsonFile = None,
    policy: PolicyOption = "torch",
    topology: TopologyOption = None,
    fake_ranks: FakeRanks = None,
    as_json: AsJson = False,
) -> None:
    """Run a program and report what its DTensor ops decided, what was communicated for that, how
    much, what it costs, and on which lines.

    The script runs as `python SCRIPT ARGS` would, with shardprop enabled; what it decides is what
    it would have decided. The report comes when it ends, however it ends. What stands behind SCRIPT
    is the script's; our options come before it. Under torchrun rank 0 reports. With --json the
    script's own prints go to stderr.

    A program that is to run on many ranks can be looked at on one machine: --fake-ranks 64 makes
    this process rank 0 of 64, whose collectives send nothing (so that values mean nothing).

    Examples:

    - `shardprop trace train.py --steps 2`: a program with an argument of its own
    - `shardprop trace --html report.html --fake-ranks 8 train.py`
    - `torchrun --nproc-per-node 4 -m shardprop trace --json-file trace.json train.py`

    Exit codes:

    - the script's own, 0 if it has none; 1 if it raises
    - 1: a report cannot be written, too
    - 2: the request makes no sense: no such script, an unknown policy
    """
    from ..inspection.tracing import trace as tracing

    given = arguments or []
    check(context, script, given, fake_ranks, {"--html": html, "--json-file": json_file})
    with watched(
        script,
        given,
        tracing(),
        fake_ranks=fake_ranks,
        keeps_stdout=as_json,
        policy=policy,
        topology=topology,
    ) as (found, code):
        if reports():
            _report(found, html, json_file, as_json)
    raise typer.Exit(code)


def _report(found: Trace, html: Path | None, json_file: Path | None, as_json: bool) -> None:
    values = found.to_json() if as_json or json_file is not None else None
    if as_json:
        print_json(values)
    else:
        typer.echo(found.text())
    with written(html, json_file):
        if json_file is not None:
            write_json(json_file, values)
        if html is not None:
            found.save_html(html)
