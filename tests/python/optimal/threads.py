"""Plans carried out by one thread for each rank: slower to set up than torch's simulation of ranks,
but with the control flow of real processes, so sizes may differ by rank."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from torch.distributed.device_mesh import DeviceMesh
from torch.testing._internal.distributed.multi_threaded_pg import (
    ProcessLocalGroup,
    _install_threaded_pg,
    _uninstall_threaded_pg,
)

from shardprop import _torch
from shardprop.model.plan_steps import Step
from shardprop.redistribution.execution import run

from .local import fault, split
from .ranks import numbers
from .walks import Tensor

__all__ = ["fault_by_threads"]

_SECONDS = 60.0


def fault_by_threads(steps: Sequence[Step], tensor: Tensor, seed: int = 0) -> str | None:
    """What is wrong with the data that the steps lead to, or the error; None if nothing is.

    No process group may be there.
    """
    ranks = len(split(numbers(tensor.shape), steps[0].before, tensor.sizes, seed))
    made: dict[int, torch.Tensor] = {}
    errors: list[str] = []
    with _threaded():
        store = HashStore()

        def one_rank(rank: int) -> None:
            try:
                dist.init_process_group("threaded", rank=rank, world_size=ranks, store=store)
                made[rank] = _run(steps, tensor, rank, seed)
            except BaseException as error:
                errors.append(f"{type(error).__name__}: {error}")
                ProcessLocalGroup.exception_handle(error)

        threads = [threading.Thread(target=one_rank, args=(r,), daemon=True) for r in range(ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_SECONDS)
    if len(made) < ranks:
        return errors[0] if errors else f"not done after {_SECONDS} seconds"
    held = [made[rank] for rank in range(ranks)]
    return fault(held, numbers(tensor.shape), steps[-1].after, tensor.sizes)


def _run(steps: Sequence[Step], tensor: Tensor, rank: int, seed: int) -> torch.Tensor:
    sizes = tensor.sizes
    names = tuple("abcde"[: len(sizes)])
    ranks = torch.arange(dist.get_world_size()).reshape(sizes)
    mesh = DeviceMesh("cpu", ranks, mesh_dim_names=names)
    for group in sorted({step.mesh_dims for step in steps if len(step.mesh_dims) > 1}):
        _torch.flatten_dims(mesh, group)
    local = split(numbers(tensor.shape), steps[0].before, sizes, seed)[rank]
    return run(steps, local, mesh, tensor.shape)


@contextmanager
def _threaded() -> Iterator[None]:
    _install_threaded_pg()
    # torch's stub of its module leaves this function out.
    torch._C._distributed_c10d._set_thread_isolation_mode(True)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        ProcessLocalGroup.reset()
        torch._C._distributed_c10d._set_thread_isolation_mode(False)  # type: ignore[attr-defined]
        _uninstall_threaded_pg()
