"""A small program for traces: its lines are looked for by the text in them."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, distribute_tensor

from ...specs import R, S


def dtensor(mesh: DeviceMesh, shape: tuple[int, ...], placements: list[Placement]) -> DTensor:
    return distribute_tensor(torch.ones(shape), mesh, placements, src_data_rank=None)


class Block(nn.Module):
    """Its product moves an operand: the contracted dim is sharded on one side alone."""

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        self.weight = nn.Parameter(dtensor(mesh, (8, 8), [S(0)]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        product = torch.mm(x, self.weight)  # the product
        return product.sin()


class Model(nn.Module):
    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(mesh), Block(mesh)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x.sum()  # the sum


def batch(mesh: DeviceMesh) -> DTensor:
    return dtensor(mesh, (8, 8), [S(0)])


def replicated(mesh: DeviceMesh) -> DTensor:
    return dtensor(mesh, (8, 8), [R])


def line_of(function: Callable[..., object] | type, text: str) -> int:
    """The line of a function's or class's source that has `text` in it."""
    lines, first = inspect.getsourcelines(function)
    (found,) = [number for number, line in enumerate(lines) if text in line]
    return first + found
