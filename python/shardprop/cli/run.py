"""The command `shardprop run`."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Annotated

import typer

from ..environment import follow
from .program import check_script, run_script
from .watched_script import ArgumentsOfScript, Script, note_own_options

__all__ = ["run"]


def run(
    context: typer.Context,
    script: Script,
    arguments: ArgumentsOfScript = None,
    report: Annotated[
        bool, typer.Option("--report", help="Print a line at the end: what was decided, by whom.")
    ] = False,
) -> None:
    """Run a program with shardprop, though it does not call `enable`.

    The script runs as `python SCRIPT ARGS` would, and shardprop is enabled when DTensor is
    imported; so it is in processes that the script starts. What stands behind SCRIPT is the
    script's; our options come before it. SHARDPROP=1 (or SHARDPROP=report) in the environment does
    the same for any command that imports torch.

    Examples:

    - `shardprop run train.py --steps 2`: a program with an argument of its own
    - `torchrun --nproc-per-node 4 -m shardprop run --report train.py`
    - `SHARDPROP=1 torchrun --nproc-per-node 4 train.py`: without this command

    Exit codes:

    - the script's own, 0 if it has none; 1 if it raises
    - 2: the request makes no sense: no such script
    """
    given = arguments or []
    check_script(script)
    note_own_options(context, given)
    if find_spec("torch") is None:
        typer.echo("Note: there is no torch here, so there is nothing to enable.", err=True)
    os.environ["SHARDPROP"] = "report" if report else "1"
    follow()
    raise typer.Exit(run_script(script, given))
