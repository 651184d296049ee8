"""The command `shardprop trace`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ShardpropError
from .common import AsJson, print_json
from .policy import PolicyOption, TopologyOption, chosen_policy

__all__ = ["trace"]


def trace(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="A Python program.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ARGS]...", help="Its own arguments.", show_default=False),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as one HTML file.")
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the JSON to a file, beside what is printed."),
    ] = None,
    policy: PolicyOption = "torch",
    topology: TopologyOption = None,
    fake_ranks: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Be rank 0 of N ranks that are not there; init_process_group is passed over.",
        ),
    ] = None,
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
    from .program import check_script, run_script, stdout_on_stderr
    from .ranks import fake_ranks as ranks_not_there
    from .ranks import keeping_the_group

    check_script(script)
    for option, file in (("--html", html), ("--json-file", json_file)):
        if file is not None and not file.resolve().parent.is_dir():
            raise ShardpropError(f"{option}: Expected a folder that is there, got {str(file)!r}.")
    if fake_ranks is not None and fake_ranks < 1:
        raise ShardpropError(f"--fake-ranks: Expected at least 1, got {fake_ranks}.")
    _note_own_options(context, arguments or ())
    reports = os.environ.get("RANK", "0") == "0"
    with ExitStack() as stack:
        if fake_ranks is not None:
            stack.enter_context(ranks_not_there(fake_ranks))
        stack.enter_context(keeping_the_group(is_given=fake_ranks is not None))
        stack.enter_context(chosen_policy(policy, topology))
        with ExitStack() as running:
            if as_json:
                running.enter_context(stdout_on_stderr())
            found = running.enter_context(tracing())
            code = run_script(script, arguments or ())
        if reports:
            _report(found, html, json_file, as_json)
    raise typer.Exit(code)


def _note_own_options(context: typer.Context, arguments: Sequence[str]) -> None:
    """Options of ours that were written behind the script are the script's; was that meant?"""
    known = {name for parameter in context.command.params for name in parameter.opts}
    options = {name for name in known if name.startswith("-")}  # SCRIPT and ARGS have names, too
    ours = [text for text in arguments if text.partition("=")[0] in options]
    if ours:
        typer.echo(f"Note: {', '.join(ours)} behind SCRIPT went to it; ours come before.", err=True)


def _report(found: Any, html: Path | None, json_file: Path | None, as_json: bool) -> None:
    values = found.to_json() if as_json or json_file is not None else None
    if as_json:
        print_json(values)
    else:
        typer.echo(found.text())
    try:
        if json_file is not None:
            json_file.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
        if html is not None:
            found.save_html(html)
    except OSError as error:
        typer.echo(f"Error: Expected a file that can be written, got {error}.", err=True)
        raise typer.Exit(1) from None
    for file in (html, json_file):
        if file is not None:
            typer.echo(f"Written to {file}", err=True)
