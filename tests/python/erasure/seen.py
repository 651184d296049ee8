"""What a program of DTensors shows of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, distribute_tensor


def spread(mesh: DeviceMesh, shape: tuple[int, ...], *placements: Any, seed: int = 0) -> DTensor:
    generator = torch.Generator().manual_seed(seed)
    whole = torch.randn(shape, generator=generator)
    return distribute_tensor(whole, mesh, placements, src_data_rank=None)


def seen(made: Any) -> Any:
    if isinstance(made, (list, tuple)):
        return [seen(each) for each in made]
    if isinstance(made, DTensor):
        return made.placements, made.shape, made.stride(), made.requires_grad, seen(made.to_local())
    return made.dtype, made.stride(), made.tolist()


def trained(run: Callable[..., Any], x: Any) -> Any:
    """What a module returns, after a step of which gradients are looked at."""
    made = run(x)
    made.sum().backward()
    return seen(made)
