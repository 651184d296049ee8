"""What `trace` and `audit` share: arguments, a script run while it is recorded, files written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ShardpropError
from .policy import chosen_policy
from .program import check_script, run_script, stdout_on_stderr

if TYPE_CHECKING:
    from ..inspection.tracing import Trace

__all__ = [
    "ArgumentsOfScript",
    "FakeRanks",
    "JsonFile",
    "Script",
    "check",
    "note_own_options",
    "reports",
    "watched",
    "write_json",
    "written",
]

Script = Annotated[Path, typer.Argument(metavar="SCRIPT", help="A Python program.")]
ArgumentsOfScript = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ARGS]...", help="Its own arguments.", show_default=False),
]
JsonFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the JSON to a file, beside what is printed."),
]
FakeRanks = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Run as rank 0 of N simulated ranks; calls to init_process_group are ignored.",
    ),
]


def check(
    context: typer.Context,
    script: Path,
    arguments: Sequence[str],
    fake_ranks: int | None,
    files: Mapping[str, Path | None],
) -> None:
    """Refuse a request that makes no sense, before anything runs.

    Args:
        context: The command's.
        script: The program.
        arguments: Its own.
        fake_ranks: How many simulated ranks.
        files: What is to be written, by option.

    Raises:
        ShardpropError: no such script, no folder for a file, or no rank.
    """
    check_script(script)
    for option, file in files.items():
        if file is not None and not file.resolve().parent.is_dir():
            raise ShardpropError(f"{option}: Expected a folder that is there, got {str(file)!r}.")
    if fake_ranks is not None and fake_ranks < 1:
        raise ShardpropError(f"--fake-ranks: Expected at least 1, got {fake_ranks}.")
    note_own_options(context, arguments)


def note_own_options(context: typer.Context, arguments: Sequence[str]) -> None:
    """Options of ours that were written behind the script are the script's; was that meant?"""
    known = {name for parameter in context.command.params for name in parameter.opts}
    options = {name for name in known if name.startswith("-")}  # SCRIPT and ARGS have names, too
    ours = [text for text in arguments if text.partition("=")[0] in options]
    if ours:
        typer.echo(f"Note: {', '.join(ours)} behind SCRIPT went to it; ours come before.", err=True)


@contextmanager
def watched(
    script: Path,
    arguments: Sequence[str],
    recording: AbstractContextManager[Trace],
    *,
    fake_ranks: int | None,
    keeps_stdout: bool,
    policy: str = "torch",
    topology: str | None = None,
) -> Iterator[tuple[Trace, int]]:
    """Run a script under `recording`. In the block there are what was recorded, the script's exit
    code, and its process group.

    Args:
        script: The program.
        arguments: Its own.
        recording: A trace that is opened when the script starts.
        fake_ranks: How many simulated ranks; None: the script makes its process group.
        keeps_stdout: What the script prints goes to stderr.
        policy: As in `enable`.
        topology: Likewise.
    """
    from .ranks import fake_ranks as ranks_not_there
    from .ranks import keeping_the_group

    with ExitStack() as stack:
        if fake_ranks is not None:
            stack.enter_context(ranks_not_there(fake_ranks))
        stack.enter_context(keeping_the_group(is_given=fake_ranks is not None))
        stack.enter_context(chosen_policy(policy, topology))
        with ExitStack() as running:
            if keeps_stdout:
                running.enter_context(stdout_on_stderr())
            found = running.enter_context(recording)
            code = run_script(script, arguments)
        yield found, code


def reports() -> bool:
    """Of several ranks that torchrun started, the first reports."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def written(*files: Path | None) -> Iterator[None]:
    """A block that writes these files, where they are given; it ends the command if one cannot be
    written."""
    try:
        yield
    except OSError as error:
        typer.echo(f"Error: Expected a file that can be written, got {error}.", err=True)
        raise typer.Exit(1) from None
    for file in files:
        if file is not None:
            typer.echo(f"Written to {file}", err=True)


def write_json(file: Path, values: object) -> None:
    """One JSON document."""
    file.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
