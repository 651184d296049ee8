"""Meshes to ask a rule about: of a fake process group, for nothing is sent."""

from __future__ import annotations

import functools
import math

import torch
import torch.distributed as dist

from .._torch import DeviceMesh

__all__ = ["mesh_of"]

_RANKS = 64


def _ensure_process_group(ranks: int) -> None:
    if not dist.is_initialized():
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=max(ranks, _RANKS))


@functools.cache
def mesh_of(sizes: tuple[int, ...]) -> DeviceMesh:
    """A mesh of these sizes, of which this process is rank 0.

    A process group is made if the process has none.
    """
    ranks = math.prod(sizes)
    _ensure_process_group(ranks)
    return DeviceMesh("cpu", torch.arange(ranks).reshape(sizes))
