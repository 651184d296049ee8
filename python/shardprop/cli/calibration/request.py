"""What the command line asks for, checked."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from ...cost.calibration import Settings
from ...cost.calibration.settings import parse_sizes
from ...errors import ShardpropError
from ..ranks import mesh_names, mesh_sizes

__all__ = ["Request", "is_under_torchrun", "request_of"]

_MOST_RANKS = 64  # processes that are started on one machine


@dataclass(frozen=True)
class Request:
    """A calibration to run; it travels to the processes.

    Attributes:
        shape: Of the mesh.
        names: Of the mesh dims, in the file too; None: the file has indices.
        flatten: Measure each group of several mesh dims as well.
        device: ``cpu`` or ``cuda``.
        settings: What sizes, how often.
        output: Where to write the topology.
        as_json: Print JSON instead of text.
    """

    shape: tuple[int, ...]
    names: tuple[str, ...] | None
    flatten: bool
    device: str
    settings: Settings
    output: Path | None
    as_json: bool

    @property
    def ranks(self) -> int:
        """How many processes take part."""
        return math.prod(self.shape)


def is_under_torchrun() -> bool:
    """Was this process started as one rank of several?"""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def request_of(
    mesh: str | None,
    ranks: int | None,
    names: str | None,
    flatten: bool,
    device: str | None,
    sizes: str | None,
    repetitions: int,
    output: Path | None,
    as_json: bool,
) -> Request:
    """The request, with what was left open filled in.

    Raises:
        ShardpropError: it makes no sense.
    """
    if device not in (None, "cpu", "cuda"):
        raise ShardpropError(f"--device: Expected cpu or cuda, got {device!r}.")
    shape = _shape(mesh, _ranks(ranks))
    gpus_needed = int(os.environ.get("LOCAL_WORLD_SIZE", math.prod(shape)))
    enough = torch.cuda.device_count() >= gpus_needed and dist.is_nccl_available()
    if device == "cuda" and not enough:
        raise ShardpropError(
            f"--device: Expected NCCL and {gpus_needed} GPUs here for cuda, got "
            f"{torch.cuda.device_count()} GPUs."
        )
    if output is not None and (output.is_dir() or not output.parent.is_dir()):
        raise ShardpropError(f"--output: Expected a file in a folder that is there, got {output}.")
    defaults = Settings()
    return Request(
        shape=shape,
        names=mesh_names(names, len(shape), "--names"),
        flatten=flatten,
        device=device or ("cuda" if enough else "cpu"),
        settings=Settings(defaults.sizes if sizes is None else parse_sizes(sizes), repetitions),
        output=output,
        as_json=as_json,
    )


def _ranks(ranks: int | None) -> int | None:
    """How many ranks there are to be, where that is known."""
    if is_under_torchrun():
        world = int(os.environ["WORLD_SIZE"])
        if ranks not in (None, world):
            raise ShardpropError(f"--ranks: Expected {world}, as torchrun started, got {ranks}.")
        return world
    if ranks is not None and not 2 <= ranks <= _MOST_RANKS:
        raise ShardpropError(f"--ranks: Expected 2 to {_MOST_RANKS}, got {ranks}.")
    return ranks


def _shape(mesh: str | None, ranks: int | None) -> tuple[int, ...]:
    if mesh is None:
        if ranks is None:
            raise ShardpropError("Expected --mesh or --ranks, or to be run by torchrun; got none.")
        return (ranks,)
    shape = mesh_sizes(mesh, most_ranks=None)
    total = math.prod(shape)
    if ranks is not None and total != ranks:
        raise ShardpropError(f"--mesh: Expected a mesh of {ranks} ranks, got {mesh} of {total}.")
    if not 2 <= total <= (_MOST_RANKS if ranks is None else ranks):
        raise ShardpropError(f"--mesh: Expected 2 to {_MOST_RANKS} ranks, got {mesh} of {total}.")
    return shape
