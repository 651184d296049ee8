"""The command line: `shardprop demo` and others, the same as `python -m shardprop ...`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from .calibration.cli import calibrate
from .discover.cli import discover
from .validate.cli import validate

if TYPE_CHECKING:
    from .coverage import Coverage, Decider

app = typer.Typer(
    name="shardprop",
    help="Compiled sharding propagation for PyTorch DTensor.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",  # reflows the paragraphs of a docstring
    pretty_exceptions_enable=False,  # a failed worker has a traceback of its own to show
)


@app.command()
def demo(
    mesh: Annotated[
        str | None,
        typer.Option(help="Sizes of the mesh dims.", show_default="2x2x2; 4x2 with --compare"),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Run torch alone too and compare every decision.")
    ] = False,
    gloo: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Train on N real processes and compare with a single device."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Let torch alone run on a mesh of 3 or more dims.")
    ] = False,
    steps: Annotated[int, typer.Option(help="Training steps.")] = 3,
    layers: Annotated[int, typer.Option(help="Transformer blocks.")] = 2,
    dim: Annotated[int, typer.Option(help="Elements per token.")] = 64,
    heads: Annotated[int, typer.Option(help="Attention heads.")] = 4,
    hidden: Annotated[int, typer.Option(help="Elements inside the MLP.")] = 128,
    vocab: Annotated[int, typer.Option(help="Tokens in the vocabulary.")] = 256,
    batch: Annotated[int, typer.Option(help="Sequences in the batch.")] = 8,
    seq: Annotated[int, typer.Option(help="Tokens per sequence.")] = 16,
    seed: Annotated[int, typer.Option(help="Seed of weights and tokens.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Train a small transformer whose parameters and activations are DTensors.

    Ends with 1 if decisions (--compare) or losses and gradients (--gloo) differ, with 2 if the
    request makes no sense.
    """
    from .demo import runs
    from .demo.settings import ModelSize, SettingsError

    size = ModelSize(layers, dim, heads, hidden, vocab, batch, seq)
    try:
        request = runs.Request(mesh, compare, gloo, force, size, steps, seed)
        run = runs.plan_run(request)
    except SettingsError as error:
        _refuse(str(error))
    outcome = run()
    _print(outcome.values if as_json else outcome.lines)
    raise typer.Exit(0 if outcome.good else 1)


@app.command()
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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
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

    Percentages are of the ops that --op leaves. Exit codes:

    - 0: none of them falls back, save the exceptions that are shown with their reasons
    - 1: one of them does
    - 2: the request makes no sense: an unknown NAME, or no such op
    """
    from .coverage import coverage as all_ops

    found = all_ops().named(op)
    if not found.ops:
        _refuse(f"Expected a part of an op's name, got {op!r}, which is in none.")
    shown = found if who is None else found.decided_by(_decider(who))
    if as_json:
        _print({**found.summary(), "ops": shown.as_json()})
    else:
        _print_coverage(found, shown)
    raise typer.Exit(1 if found.gaps() else 0)


app.command()(validate)
app.command()(discover)
app.command()(calibrate)


def _decider(who: str) -> Decider:
    from .coverage import Decider

    named = [decider for decider in Decider if decider.value.startswith(who)]
    if len(named) != 1:
        names = ", ".join(decider.value for decider in Decider)
        _refuse(f"Expected one of {names}; got {who!r}.")
    return named[0]


def _print_coverage(found: Coverage, shown: Coverage) -> None:
    from rich.console import Console
    from rich.table import Table

    from .coverage import Decider

    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    ops = Table("op", "who decides", "how", "metadata", "reached", box=None)
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
    sums = Table("", "ops", "percent", "without composites", "percent", box=None)
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


def _print(what: Mapping[str, object] | Iterable[str]) -> None:
    """Values as one JSON document, lines as they are."""
    if isinstance(what, Mapping):
        typer.echo(json.dumps(what, indent=2))
    else:
        for line in what:
            typer.echo(line)


def _refuse(message: str) -> NoReturn:
    """Say what is wrong with the request and end with exit code 2."""
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(2)


def main() -> None:
    """The entry point of the `shardprop` script."""
    app()
