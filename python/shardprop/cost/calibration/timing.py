"""Times of calls that all ranks make together."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from ..._torch import DeviceMesh
from .settings import Settings
from .workloads import Workload

__all__ = ["medians_us"]

# On a GPU the host runs ahead, as in a program: the time of a call is that of several in a row.
_CALLS_IN_A_ROW = 10


def medians_us(
    mesh: DeviceMesh,
    workloads: Sequence[Workload],
    settings: Settings,
    begin: Callable[[str], None] = lambda _: None,
) -> list[float]:
    """Microseconds of each call: the median over repetitions, the most over all ranks of the mesh.

    The calls take turns in another order each time, so that neither a busy machine nor the call
    before it (a large one leaves cold caches) falls on one of them alone. So all that is to be
    compared has to be in one list: what plans are chosen by is which collective is cheaper. All
    groups over the same mesh dims run at the same time, as in a program. Every rank gets the same
    numbers. `begin` is called before each round, untimed.
    """
    times: list[list[float]] = [[] for _ in workloads]
    for repetition in range(-settings.warmups, settings.repetitions):
        begin("warming up" if repetition < 0 else f"round {repetition + 1}")
        order = random.Random(repetition).sample(range(len(workloads)), len(workloads))
        for number in order:  # the same on all ranks
            _largest_of_ranks(mesh, [0.0])  # together from here
            us = _us(workloads[number], mesh.device_type)
            if repetition >= 0:
                times[number].append(us)
    return _largest_of_ranks(mesh, [statistics.median(found) for found in times])


def _us(workload: Workload, device_type: str) -> float:
    """Microseconds of one call on this rank."""
    on_cpu = device_type == "cpu"
    calls = 1 if on_cpu else _CALLS_IN_A_ROW
    start = time.perf_counter()
    for _ in range(calls):
        workload.run()
    if not on_cpu:
        torch.accelerator.synchronize()
    return (time.perf_counter() - start) * 1e6 / calls


def _largest_of_ranks(mesh: DeviceMesh, values: list[float]) -> list[float]:
    """For each place in the list, the largest value that a rank of the mesh has there."""
    found = torch.tensor(values, dtype=torch.float64, device=mesh.device_type)
    for dim in range(mesh.ndim):
        if mesh.size(dim) > 1:
            dist.all_reduce(found, dist.ReduceOp.MAX, mesh.get_group(dim))
    largest: list[float] = found.tolist()
    return largest
