"""The command `shardprop discover`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import AsJson
from .simulation import Jobs, Ranks, Samples, Seed, TimeLimit

__all__ = ["discover"]


def discover(
    ops: Annotated[
        list[str],
        typer.Argument(
            metavar="OP...",
            help="Such as mylib::op, aten.mm.default, mm or add.Tensor.",
            show_default=False,
        ),
    ],
    module: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A Python file to import, such as defines the ops."),
    ] = None,
    samples: Samples = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Compare with the rule that the op has now.")
    ] = False,
    every_reduce_op: Annotated[
        bool,
        typer.Option("--every-reduce-op", help="Try product, band, bor and bxor too."),
    ] = False,
    ranks: Ranks = "2,3",
    jobs: Jobs = None,
    time_limit: TimeLimit = 120.0,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Find the rule of an op: the rows that hold on simulated ranks, as the shortest text.

    The op need not have a rule. It is called on torch's sample inputs, on those of --samples or on
    calls made up from its schema, and on more made from these: with other dims, flags and numbers,
    with sizes that do not divide. What holds on every call is written in the compact notation, to
    be pasted into a program. Rows that hold on some calls only are told with a call that refutes
    them, and so are arguments that had one value in all calls: nothing is known of others.

    The calls are evidence, no proof: a rule is worth as much as the calls differ.

    Examples:

    - `shardprop discover mm`: the rule of an op that has one, found again
    - `shardprop discover mylib::op --module my_ops.py`: the rule of an op of yours

    Exit codes:

    - 0: a rule was found for every op
    - 1: not for one of them: a crash, the time limit, no call known
    - 2: the request makes no sense: an unknown op, a file that cannot be used
    """
    from ..verification.discover.command import run
    from ..verification.request import Request

    request = Request(
        ops=tuple(ops),
        module=module,
        samples=samples,
        ranks=ranks,
        jobs=jobs,
        time_limit=time_limit,
        seed=seed,
    )
    code = run(request, diff=diff, every_reduce_op=every_reduce_op, as_json=as_json)
    raise typer.Exit(code)
