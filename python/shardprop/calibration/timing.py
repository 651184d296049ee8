"""Times of a call that all ranks make together."""

from __future__ import annotations

import statistics
import time

import torch
import torch.distributed as dist

from .._torch import DeviceMesh
from .settings import Settings
from .workloads import Workload

__all__ = ["median_us"]

# On a GPU the host runs ahead, as in a program: the time of a call is that of several in a row.
_CALLS_IN_A_ROW = 10


def median_us(mesh: DeviceMesh, workload: Workload, settings: Settings) -> float:
    """Microseconds of one call: the median over repetitions, the most over all ranks of the mesh.

    All groups of the mesh that the call knows of run at the same time, as in a program. Every rank
    gets the same number.
    """
    on_cpu = mesh.device_type == "cpu"
    calls = 1 if on_cpu else _CALLS_IN_A_ROW
    times = []
    for repetition in range(-settings.warmups, settings.repetitions):
        _largest(mesh, 0.0)  # together from here
        start = time.perf_counter()
        for _ in range(calls):
            workload.run()
        if not on_cpu:
            torch.accelerator.synchronize()
        if repetition >= 0:
            times.append((time.perf_counter() - start) * 1e6 / calls)
    return _largest(mesh, statistics.median(times))


def _largest(mesh: DeviceMesh, value: float) -> float:
    """The largest value that a rank of the mesh has."""
    found = torch.tensor(value, dtype=torch.float64, device=mesh.device_type)
    for dim in range(mesh.ndim):
        dist.all_reduce(found, dist.ReduceOp.MAX, mesh.get_group(dim))
    return found.item()
