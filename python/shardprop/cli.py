"""The command line: `shardprop demo`, the same as `python -m shardprop demo`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, NoReturn

import typer

app = typer.Typer(
    name="shardprop",
    help="Compiled sharding propagation for PyTorch DTensor.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a failed worker has a traceback of its own to show
)


@app.callback()
def _root() -> None:
    """Keeps `demo` a sub-command: typer runs a lone command without its name."""


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
