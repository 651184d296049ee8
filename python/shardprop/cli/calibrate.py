"""The command `shardprop calibrate`."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Annotated

import typer

from .common import AsJson

__all__ = ["calibrate"]


def calibrate(
    mesh: Annotated[
        str | None,
        typer.Option(metavar="NxN", help="Sizes of the mesh dims.", show_default="all ranks"),
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option(metavar="N", help="Start so many processes here.", show_default="of --mesh"),
    ] = None,
    names: Annotated[
        str | None,
        typer.Option(
            metavar="dp,tp", help="Names of the mesh dims, for the file; else it has indices."
        ),
    ] = None,
    flatten: Annotated[
        bool, typer.Option("--flatten", help="Measure groups of several mesh dims too.")
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="cpu|cuda",
            help="Measure gloo on CPUs or NCCL on GPUs.",
            show_default="cuda where there are GPUs for all ranks here",
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="S,S", help="Bytes that a rank holds.", show_default="1KiB to 16MiB, by 4"
        ),
    ] = None,
    repetitions: Annotated[int, typer.Option(help="The median of so many counts.")] = 15,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the topology to this JSON file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the collectives that redistribution runs, and fit a cost model to them.

    Under torchrun the ranks are those that it started; else they are started here, on this machine.
    For each mesh dim, and with --flatten for each group of several, all-gather, reduce-scatter,
    all-reduce, all-to-all and a permutation are timed over a range of sizes, and a local copy. The
    time of a size is the median of the repetitions on the slowest rank. A line of least relative
    error is fitted to each: a fixed time and a bandwidth, with the error that is left. Products of
    matrices are timed, too, for the rate at which ops compute.

    --output writes the file that a cost model is loaded from. It is for meshes of the same shape
    on the same machines. The groups of --flatten are in it, and it is refused for a mesh that
    has not flattened them.

    Examples:

    - `shardprop calibrate --mesh 2x2 --output here.json`: four processes on this machine
    - `torchrun --nproc-per-node 8 -m shardprop calibrate --mesh 2x4 --names dp,tp --flatten
      --output node.json`: eight GPUs; then `enable(policy="optimal", topology="node.json")`

    Exit codes:

    - 0: all is measured, and the file is written
    - 1: a process failed, or the file cannot be written
    - 2: the request makes no sense
    """
    from .calibration.processes import run
    from .calibration.request import request_of

    request = request_of(mesh, ranks, names, flatten, device, sizes, repetitions, output, as_json)
    try:
        run(request)
    except Exception:  # of a process of its own, whatever it is
        traceback.print_exc()
        raise typer.Exit(1) from None
