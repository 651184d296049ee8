"""The processes of a calibration: those of torchrun, or local ones that are started here."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from ...cost.calibration import Calibration, calibrate
from ...cost.topology import Group, Topology
from ...redistribution.group_creation import create_groups
from ...support.progress import progress
from ...support.torch_advice import without_torch_advice
from ..local_processes import run_ranks
from .report import publish
from .request import Request, is_under_torchrun

__all__ = ["run"]


def run(request: Request) -> None:
    """Calibrate; rank 0 prints and writes.

    Raises:
        Exception: whatever a process raised.
    """
    if is_under_torchrun():
        _run_rank(int(os.environ["RANK"]), "env://", request)
        # As a process that is started below ends: where the interpreter takes down what gloo has
        # left, a thread of gloo's has aborted the process ("terminate called without an active
        # exception"), and torchrun the others.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    else:
        run_ranks(_run_rank, request.ranks, request)


def _run_rank(rank: int, init_method: str, request: Request) -> None:
    if request.device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group(
        "nccl" if request.device == "cuda" else "gloo",
        init_method=init_method,
        rank=rank,
        world_size=request.ranks,
    )
    try:
        # torch's advice that its all-to-all over gloo is made of an all-gather: it is measured so.
        with without_torch_advice():
            found = _calibrated(request)
        if rank == 0:
            publish(found, request)
        dist.barrier()  # nobody leaves before rank 0 is done
    finally:
        dist.destroy_process_group()


def _calibrated(request: Request) -> Calibration:
    # torch flattens meshes with names only.
    names = request.names or tuple(f"dim{dim}" for dim in range(len(request.shape)))
    mesh = init_device_mesh(request.device, request.shape, mesh_dim_names=names)
    if request.flatten:
        create_groups(mesh)
    settings = request.settings
    with _progress(settings.warmups + settings.repetitions) as begin:
        found = calibrate(mesh, settings, begin)
    if request.names is None:
        return replace(found, topology=_by_index(found.topology, names))
    return found


def _progress(rounds: int) -> AbstractContextManager[Callable[[str], None]]:
    """A bar, on one rank."""
    return progress(rounds) if dist.get_rank() == 0 else nullcontext(lambda _: None)


def _by_index(topology: Topology, names: tuple[str, ...]) -> Topology:
    """With indices in the place of names that the user has not given."""
    groups = tuple(
        Group(tuple(names.index(str(dim)) for dim in group.mesh_dims), group.links)
        for group in topology.groups
    )
    return replace(topology, groups=groups)
