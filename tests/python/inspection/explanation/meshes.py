"""Meshes with names, made once."""

from __future__ import annotations

import functools

from torch.distributed.device_mesh import DeviceMesh, init_device_mesh


@functools.cache
def named_mesh(**sizes: int) -> DeviceMesh:
    """A CPU mesh: ``named_mesh(dp=2, tp=4)``."""
    return init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
