"""Short ways to meshes, tensors and policies for tests of policy ``optimal``."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement

TOPOLOGY = "h100-nvlink"
mm = torch.ops.aten.mm.default


def fresh_mesh(*sizes: int, names: Sequence[str] | None = tuple("abcdefgh")) -> DeviceMesh:
    """A mesh of its own, so that no other test has flattened it."""
    ranks = torch.arange(math.prod(sizes)).reshape(sizes)
    dim_names = None if names is None else tuple(names[: len(sizes)])
    return DeviceMesh("cpu", ranks, mesh_dim_names=dim_names)


def dtensor(mesh: DeviceMesh, local: Sequence[int], placements: Sequence[Placement]) -> DTensor:
    return DTensor.from_local(torch.zeros(*local), mesh, placements, run_check=False)
