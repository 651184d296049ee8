"""The command `shardprop demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from .common import AsJson, print_json

__all__ = ["demo"]


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
    as_json: AsJson = False,
) -> None:
    """Train a small transformer whose parameters and activations are DTensors, and time the
    propagation of its shardings.

    For a first look: it needs no GPU, no launcher and no other process. Ranks are simulated unless
    --gloo starts real ones.

    Examples:

    - `shardprop demo`: a 2x2x2 mesh, which torch alone would take most of an hour for
    - `shardprop demo --compare --mesh 2x2`: the same training with torch alone, decisions compared
    - `shardprop demo --gloo 4`: four real processes, compared with a single device

    Exit codes:

    - 0: it ran, and what was to be compared is equal
    - 1: decisions (--compare), or losses and gradients (--gloo), differ
    - 2: the request makes no sense, such as a mesh that does not divide the model
    """
    from .demo_program.compare import run_compared
    from .demo_program.gloo import run_on_gloo
    from .demo_program.llama import LlamaSize
    from .demo_program.settings import Settings, mesh_of
    from .demo_program.train import run_on_fake_ranks

    sizes = mesh_of(mesh, compare=compare, processes=gloo, force=force)
    size = LlamaSize(layers, dim, heads, hidden, vocab, batch, seq)
    settings = Settings(sizes, size, steps, seed)
    run = run_compared if compare else run_on_fake_ranks if gloo is None else run_on_gloo
    report = run(settings)
    if as_json:
        print_json(report.values())
    else:
        typer.echo(report.text())
    raise typer.Exit(0 if report.good else 1)
