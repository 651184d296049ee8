"""A transformer block as programs shard it: batch over the first mesh dim, heads and the MLP's
hidden features over the second (tensor parallel), sequences whole, so that any length will do."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement, distribute_tensor

from .engine import R, S

BATCH, HEADS, HEAD_DIM, HIDDEN = 8, 8, 4, 64
DIM = HEADS * HEAD_DIM


class Block(nn.Module):
    """Layer norm, attention, layer norm, MLP, each pair added to the residual stream."""

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        self._mesh = mesh

        def weight(*shape: int, over: Placement) -> nn.Parameter:
            return nn.Parameter(self._sharded(0.1 * torch.rand(shape), R, over))

        self.norms = nn.ParameterList(weight(DIM, over=R) for _ in range(4))
        self.qkv = nn.ParameterList(weight(DIM, DIM, over=S(0)) for _ in range(3))
        self.joined = weight(DIM, DIM, over=S(1))
        self.up = weight(HIDDEN, DIM, over=S(0))
        self.down = weight(DIM, HIDDEN, over=S(1))

    def _sharded(self, whole: Tensor, *placements: Placement) -> Tensor:
        return distribute_tensor(whole, self._mesh, placements, src_data_rank=None)

    def tokens(self, length: int) -> Tensor:
        """Activations of a sequence length, as they come in and (as gradients) come back."""
        return self._sharded(torch.rand(BATCH, length, DIM), S(0), R)

    def _summed(self, x: Any) -> Any:
        """The residual stream's layout: what a row-parallel product leaves pending is summed."""
        return x.redistribute(placements=[S(0), R])

    def forward(self, x: Tensor) -> Tensor:
        """[batch, length, features] in and out."""
        x = x + self._attention(F.layer_norm(x, (DIM,), *self.norms[:2]))
        hidden = F.gelu(F.linear(F.layer_norm(x, (DIM,), *self.norms[2:]), self.up))
        return x + self._summed(F.linear(hidden, self.down))

    def _attention(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            F.linear(x, w).view(batch, length, HEADS, HEAD_DIM).transpose(1, 2) for w in self.qkv
        )
        scores = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(HEAD_DIM), -1)
        mixed = (scores @ v).transpose(1, 2).reshape(batch, length, DIM)
        return self._summed(F.linear(mixed, self.joined))
