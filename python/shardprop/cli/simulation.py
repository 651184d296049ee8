"""The options of the commands that run ops on simulated ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Jobs", "Ranks", "Samples", "Seed", "TimeLimit"]

Samples = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="A Python file with samples(op), which yields (args, kwargs)."
    ),
]
Ranks = Annotated[str, typer.Option(metavar="N,N", help="Sizes of the 1-D meshes.")]
Jobs = Annotated[int | None, typer.Option(help="Processes at a time.", show_default="processors")]
TimeLimit = Annotated[
    float, typer.Option(metavar="S", help="Seconds for one op, then it is given up.")
]
Seed = Annotated[int, typer.Option(help="Seed of every random number.")]
