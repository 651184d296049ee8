"""A tensor-parallel transformer block, its sequence sharded between the linear layers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from ..device import DEVICE
from ..specs import S

WIDTH, HIDDEN, HEAD = 32, 64, 8


class Block(nn.Module):
    """Attention without a mask, and a feed-forward layer.

    Attributes:
        scale: Multiplies the second part.
        activation: Of the feed-forward layer.
        dropout: Of the feed-forward layer, in training.
    """

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH, bias=False)
        self.scale = 1.0
        self.activation = F.relu
        self.dropout = 0.0

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.norm1(x)
        q, k, v = (
            each(hidden).unflatten(-1, (-1, HEAD)).transpose(1, 2)
            for each in (self.q, self.k, self.v)
        )
        weights = torch.softmax(q @ k.transpose(-1, -2), -1)
        x = x + self.o((weights @ v).transpose(1, 2).flatten(2))
        hidden = self.activation(self.up(self.norm2(x)))
        hidden = F.dropout(hidden, self.dropout, self.training)
        return x + self.down(hidden) * self.scale


def block(mesh: DeviceMesh) -> Block:
    """The same on every rank and in every run."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = Block().to(DEVICE)
    by_column = ColwiseParallel(input_layouts=S(1), use_local_output=False)
    by_row = RowwiseParallel(output_layouts=S(1), use_local_output=False)
    plan = {
        **dict.fromkeys(("norm1", "norm2"), SequenceParallel()),
        **dict.fromkeys(("q", "k", "v", "up"), by_column),
        **dict.fromkeys(("o", "down"), by_row),
    }
    parallelize_module(made, mesh, plan)
    return made


def tokens(mesh: DeviceMesh, batch: int = 2, length: int = 16, seed: int = 0) -> DTensor:
    """Activations whose sequence is sharded; every rank's are other ones."""
    generator = torch.Generator().manual_seed(seed)
    local = torch.randn(batch, length // mesh.size(), WIDTH, generator=generator).to(DEVICE)
    return DTensor.from_local(local, mesh, [S(1)], run_check=False)
