"""The command `shardprop doctor`."""

from __future__ import annotations

import typer

from .common import AsJson, print_json

__all__ = ["doctor"]


def doctor(as_json: AsJson = False) -> None:
    """Look whether shardprop works here, and say what to do where it does not.

    Checked are the versions of torch and Python, the extension and how it was built, whether an op
    on DTensors comes to the core and gets torch's answer, other libraries that replaced the same
    parts of torch, which faults of torch are put right and which this torch does not have, the
    caches, torchrun's variables, optional packages and logging. Each check is ok, a note (works,
    but know this) or a problem.

    A program can ask about itself, its process group and the flattened meshes that it lacks:
    `from shardprop.cli.doctor_checks import examine; print(examine())`.

    Examples:

    - `shardprop doctor`
    - `shardprop doctor --json`

    Exit codes:

    - 0: no problem
    - 1: a problem
    - 2: the request makes no sense
    """
    from .doctor_checks import examine

    report = examine()
    if as_json:
        print_json(report.to_json())
    else:
        typer.echo(str(report))
    raise typer.Exit(0 if report.healthy else 1)
