"""The command line: `shardprop demo` and others, the same as `python -m shardprop ...`.

One file per command; what only one command needs stands beside it, the rest in the packages below.
What a command does is imported when it is run.

Shared by commands:

common           all: exit codes, errors, JSON
policy           `explain`, `trace`: the options that choose a policy
simulation       `validate`, `discover`: the options of runs on simulated ranks
ranks            meshes of ranks that are not there, and process groups that stand in for real ones
local_processes  `calibrate`, `demo`: a real process on this machine for each rank
decisions        `bench`, `demo`, `doctor`, `audit`: torch's decisions beside shardprop's
watched_script   `trace`, `audit`, `run`: a script and its arguments; a recording while it runs
program          `trace`, `audit`, `run`: a script that is run as `python SCRIPT` would be

For one command:

audit_findings   `audit`: what torch alone gets wrong, by line
benchmark/       `bench`
calibration/     `calibrate`
coverage_table   `coverage`: who decides each op
demo_program/    `demo`
doctor_checks/   `doctor`
notation         `explain`: tensors and arguments as they are typed
fitting          `explain`: which overload of an op takes them

A new command also goes into the README's list, the table of docs/cli.md, and COMMANDS in
tests/python/cli/test_commands.py.
"""

from __future__ import annotations

from typing import Annotated

import typer

from .audit import audit
from .bench import bench
from .calibrate import calibrate
from .common import EXIT_CODES, Commands
from .coverage import coverage
from .demo import demo
from .discover import discover
from .doctor import doctor
from .explain import explain
from .run import run
from .trace import trace
from .validate import validate

__all__ = ["app", "main"]

app = typer.Typer(
    name="shardprop",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",  # reflows the paragraphs of a docstring
    pretty_exceptions_enable=False,  # a failed worker has a traceback of its own to show
)


def _show_version(wanted: bool) -> None:
    if wanted:
        import platform

        import torch

        from .. import __version__

        python = platform.python_version()
        typer.echo(f"shardprop {__version__} (torch {torch.__version__}, Python {python})")
        raise typer.Exit


@app.callback(
    help=f"""Compiled sharding propagation for PyTorch DTensor.

    New here: `shardprop demo` shows what it does, `shardprop doctor` whether it works here,
    `shardprop run` runs a program with it, `shardprop explain` why one op is sharded as it is,
    `shardprop trace` what a program communicates, and where, `shardprop audit` what torch alone
    would get wrong in it.

    Every command has examples in its --help, and with --json (all but `run`) prints one JSON
    document on stdout; messages and progress go to stderr.

    Exit codes, of every command:

{EXIT_CODES}
    """
)
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print versions and exit."
        ),
    ] = False,
) -> None:
    """What stands before a command."""


app.command()(demo)
# What stands behind the script is the script's.
_ends_our_options = {"allow_interspersed_args": False}
app.command(context_settings=_ends_our_options)(run)
# -1 is an argument, and no option.
app.command(context_settings={"ignore_unknown_options": True})(explain)
app.command(context_settings=_ends_our_options)(trace)
app.command(context_settings=_ends_our_options)(audit)
for _command in (bench, validate, discover, coverage, calibrate, doctor):
    app.command()(_command)


def main() -> None:
    """The entry point of the `shardprop` script."""
    app()
