"""Meshes to ask a rule about: of a fake process group, for nothing is sent."""

from __future__ import annotations

import functools
import math

import torch
import torch.distributed as dist

from ... import _torch
from ..._torch import DeviceMesh

__all__ = ["ensure_process_group", "mesh_of"]

_RANKS = 64


def ensure_process_group(ranks: int) -> None:
    """A process group for meshes of that many ranks, if the process has none."""
    if not dist.is_initialized():
        _torch.make_fake_process_group(max(ranks, _RANKS))


@functools.lru_cache(maxsize=32)
def mesh_of(sizes: tuple[int, ...], flattened: bool = False) -> DeviceMesh:
    """A mesh of these sizes, of which this process is rank 0; with one beside it that is flattened.

    A process group is made if the process has none.
    """
    ranks = math.prod(sizes)
    ensure_process_group(ranks)
    names = tuple(f"dim_{index}" for index in range(len(sizes)))
    mesh = DeviceMesh("cpu", torch.arange(ranks).reshape(sizes), mesh_dim_names=names)
    if flattened:
        _torch.flatten_mesh(mesh)
    return mesh
