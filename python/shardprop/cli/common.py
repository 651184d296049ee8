"""What all commands share: exit codes, errors without a traceback, JSON on stdout."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..errors import ShardpropError

__all__ = ["EXIT_CODES", "AsJson", "Commands", "print_json"]

# The one place where they are given their meaning; each command says what a finding is to it.
EXIT_CODES = """\
    - 0: all is well
    - 1: a finding, such as a difference, an unsound rule, an op without a decision, a problem
    - 2: the request makes no sense; one line on stderr says why
    - 130: interrupted
"""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


class Commands(TyperGroup):
    """The commands; a user's mistake ends any of them with one line and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except ShardpropError as error:
            typer.echo(f"Error: {error}", err=True)
            raise typer.Exit(2) from None


def print_json(values: object) -> None:
    """One JSON document on stdout."""
    typer.echo(json.dumps(values, indent=2))
