"""The command `shardprop bench`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..support.console import console_for_tables
from .common import AsJson, print_json

__all__ = ["bench"]


def bench(
    mesh: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NxN",
            help="Sizes of the mesh dims; may be given again.",
            show_default="8, 8x8 and 4x4x4",
        ),
    ] = None,
    op: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="mm, add, bmm, layer_norm, cat or embedding; may be given again.",
            show_default="all of them",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer rounds, and no mesh of 3 dims unless given.")
    ] = False,
    every_mesh: Annotated[
        bool, typer.Option("--all", help="A 2x2x4x4 mesh too, where torch takes a second a time.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Time torch's sharding propagation and shardprop's side by side, and compare the decisions.

    Nothing is run and nothing communicates: timed is what happens between an op and the decision
    how to shard it, in this process, both sides in turns, medians of the same questions. "first"
    meets empty caches; "again" was asked before, and torch has forgotten the decision but not its
    prices. Ratios hold from machine to machine, microseconds do not.

    Examples:

    - `shardprop bench --quick`: seconds
    - `shardprop bench --mesh 2x2x2 --op mm --json`

    Exit codes:

    - 0: all decisions are equal
    - 1: one differs from torch's
    - 2: the request makes no sense: an unknown op, a mesh that cannot be
    """
    from ..propagation.propagator import disable
    from ..support.progress import progress
    from .benchmark.measuring import KINDS, measure
    from .benchmark.report import table, values
    from .benchmark.request import request_of
    from .ranks import fake_mesh, fake_ranks, mesh_sizes

    request = request_of([mesh_sizes(text) for text in mesh or ()], op or (), quick, every_mesh)
    disable()  # SHARDPROP=1 in the environment would give torch our prices
    found = []
    with fake_ranks(request.ranks), progress(len(request.meshes) * len(request.ops)) as begin:
        for sizes in request.meshes:
            on = fake_mesh(sizes, None)
            for name in request.ops:
                begin(f"{name} on {'x'.join(map(str, sizes))}")
                found += [measure(name, on, kind, request.rounds(sizes)) for kind in KINDS]
    if as_json:
        print_json(values(found))
    else:
        console_for_tables().print(table(found))
    raise typer.Exit(0 if all(one.equal for one in found) else 1)
