"""The command `shardprop validate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import AsJson
from .simulation import Jobs, Ranks, Samples, Seed, TimeLimit

__all__ = ["validate"]


def validate(
    ops: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[OP]...",
            help="Such as aten.mm.default, aten::mm, mm, add.Tensor, '*softmax*' or mylib::op.",
            show_default=False,
        ),
    ] = None,
    every_op: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Every op with a rule, registered ones too, or (not of torch) a decomposition.",
        ),
    ] = False,
    module: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A Python file to import; without OP, the ops it registers."
        ),
    ] = None,
    samples: Samples = None,
    rule: Annotated[
        str, typer.Option(metavar="active|torch", help="The rule that decides, or torch's own.")
    ] = "active",
    ranks: Ranks = "2,3",
    composed: Annotated[
        str,
        typer.Option(metavar="N,N|none", help="The mesh on which pairs of rows are composed."),
    ] = "2,2",
    missing: Annotated[
        bool, typer.Option("--no-missing", help="Look for no rows that could be claimed.")
    ] = False,
    strided: Annotated[
        bool, typer.Option("--no-strided", help="Try no _StridedShard placements.")
    ] = False,
    gradients: Annotated[
        bool,
        typer.Option("--no-gradients", help="Carry out no call as DTensor does, with gradients."),
    ] = False,
    plans: Annotated[
        bool, typer.Option("--plans", help="Try how torch carries out redistributions too.")
    ] = False,
    jobs: Jobs = None,
    time_limit: TimeLimit = 60.0,
    seed: Seed = 0,
    as_json: AsJson = False,
    repro: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write a script for each finding that shows it with torch and your module.",
        ),
    ] = None,
    show_missing: Annotated[
        bool, typer.Option("--show-missing", help="List the rows that could be claimed.")
    ] = False,
) -> None:
    """Put sharding rules to the test: every row against the op itself, on simulated ranks.

    Each op is called on torch's sample inputs, forward and backward, on calls written for it, or on
    calls made up from its schema; the operands are laid out as a row says, the op is run for every
    rank, and what the ranks hold together must be what the op gives on whole tensors. A row that
    claims otherwise is *unsound*. A row that would hold and is not claimed is *missing*: a rule may
    leave it out.

    Each call is also carried out by DTensor itself, forward and backward, on all ranks of small
    meshes in one process: in several layouts, with even, uneven and empty shards and with pending
    sums. A run is *wrong* whose result or gradient is not that of one device, or in which some
    ranks raise while the others go on.

    Some ops have nothing to try on dense tensors of the CPU: they draw random numbers, return no
    tensor, take sparse ones, or have no kernel there. They are listed by the reason. A random op is
    tried where it draws the same each time, as dropout does with a probability of 0.

    Ops are tried in processes of their own; one that crashes or hangs is reported, and the others
    go on. The same seed gives the same report.

    Examples:

    - `shardprop validate mm add.Tensor '*softmax*'`: the rules that torch has for these
    - `shardprop validate --module my_rules.py`: the rules that a file of yours registers

    Exit codes:

    - 0: every op was tried to its end, and no row is unsound, no run wrong; with --all, save ops of
      which there is nothing to try
    - 1: a row is unsound, a run is wrong, or an op was not tried to its end: a crash, the time
      limit, no call known
    - 2: the request makes no sense: an unknown op, a file that cannot be used
    """
    from ..verification.request import Request
    from ..verification.validate.command import run

    request = Request(
        ops=tuple(ops or ()),
        every_op=every_op,
        module=module,
        samples=samples,
        rule=rule,
        ranks=ranks,
        composed=composed,
        missing=not missing,
        strided=not strided,
        gradients=not gradients,
        plans=plans,
        jobs=jobs,
        time_limit=time_limit,
        seed=seed,
        repro=repro,
    )
    raise typer.Exit(run(request, as_json, show_missing))
