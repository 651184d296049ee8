"""The command `shardprop coverage`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ShardpropError
from ..support.console import console_for_tables, table
from ..support.progress import progress
from .common import AsJson, print_json

if TYPE_CHECKING:
    from .coverage_table import Coverage, Decider

__all__ = ["coverage"]


def coverage(
    op: Annotated[
        str, typer.Option(metavar="SUBSTRING", help="Only ops with this in their name.")
    ] = "",
    who: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only ops that are decided so; the beginning of the name is enough, as in 'own'.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List every op that DTensor can be asked to decide, and who decides it under shardprop.

    Listed are the op overloads that have, in the installed torch, a rule in one of DTensor's three
    registries, a handler in its dispatcher, or a decomposition that DTensor would trace for want of
    a rule. Composite ops among them reach DTensor in inference mode only, since autograd takes them
    apart first. Ops that take no tensor are left out.

    Who decides:

    - core rule: the core searches the rows of torch's single-dim rule
    - own rule: a rule of shardprop stands for torch's full-mesh strategy
    - registered rule: the core searches the rows of a rule that the program registered
    - decomposition: the core, by what the op decomposes into
    - custom handler: nobody, torch's dispatcher runs a function that asks for no decision
    - fallback: torch's own code

    Beside it, how the shapes of the op's outputs are found: by a closed form, by its meta kernel,
    or on fake tensors (--json tells the reason).

    Percentages are of the ops that --op leaves.

    Examples:

    - `shardprop coverage --op softmax`: who decides the softmaxes
    - `shardprop coverage --who fallback`: what torch's own code decides

    Exit codes:

    - 0: none of them falls back, save the exceptions that are shown with their reasons
    - 1: one of them does
    - 2: the request makes no sense: an unknown NAME, or no such op
    """
    from .coverage_table import coverage as all_ops

    with progress(2) as begin:
        everything = all_ops(begin)
    found = everything.named(op)
    if not found.ops:
        raise ShardpropError(f"Expected a part of an op's name, got {op!r}, which is in none.")
    shown = found if who is None else found.decided_by(_decider(who))
    if as_json:
        print_json({**found.summary(), "ops": shown.as_json()})
    else:
        _print_coverage(found, shown)
    raise typer.Exit(1 if found.gaps() else 0)


def _decider(who: str) -> Decider:
    from .coverage_table import Decider

    named = [decider for decider in Decider if decider.value.startswith(who)]
    if len(named) != 1:
        names = ", ".join(decider.value for decider in Decider)
        raise ShardpropError(f"Expected one of {names}; got {who!r}.")
    return named[0]


def _print_coverage(found: Coverage, shown: Coverage) -> None:
    from .coverage_table import Decider

    console = console_for_tables()
    ops = table(("op", "who decides", "how", "metadata", "reached"))
    for op in shown.ops:
        reached = "in inference mode" if op.composite else ""
        how = op.how or ""
        ops.add_row(
            op.op,
            op.decider.value,
            f"{how}: {op.exception}" if op.exception else how,
            op.metadata.name,
            reached,
        )
    console.print(ops, markup=False)
    usual = found.reached_always()
    sums = table(("", "ops", "percent", "without composites", "percent"))
    for decider in Decider:
        cells = (
            part
            for c in (found, usual)
            for part in (str(c.count(decider)), f"{c.percent(decider):.2f}")
        )
        sums.add_row(decider.value, *cells)
    sums.add_row("all", str(len(found.ops)), "", str(len(usual.ops)), "")
    console.print()
    console.print(sums)
    for how, count in found.fallbacks().most_common():
        console.print(f"fallback: {count} by torch's {how}", markup=False, highlight=False)
