"""What a rank of real processes makes of a function's cases."""

from __future__ import annotations

import functools

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from ...device import DEVICE
from .cases import drawn_cases, outcome_of
from .outcome import Found

__all__ = ["outcomes_on_rank"]


def outcomes_on_rank(function: str, count: int) -> list[tuple[str, Found]]:
    """How so many cases of a function end on this rank, with their names."""
    found = []
    for case in drawn_cases(function, _mesh_of, count):
        outcome = outcome_of(case, simulated=False)
        if outcome is not None:
            found.append((str(case), outcome))
    return found


@functools.cache
def _mesh_of(*sizes: int) -> DeviceMesh | None:
    """A mesh of as many dims over all ranks; none of two dims where they do not make a square."""
    world = dist.get_world_size()
    if len(sizes) == 1:
        return init_device_mesh(DEVICE, (world,))
    return init_device_mesh(DEVICE, sizes) if world == 4 else None
