"""A Llama 3 for planning: its shapes are those of the published 8B, but for the number of layers.

LLaMA3-8B: dim 4096, 32 query and 8 key heads, hidden 14336, vocabulary 128256
(https://arxiv.org/abs/2407.21783, table 3).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from shardprop.cli.demo_program.llama import Llama, LlamaSize

BATCH, SEQ = 16, 8192


class RMSNorm(nn.Module):
    """In float32, as Llama computes it, op by op."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return normed.type_as(x) * self.weight


def build(layers: int, dtype: torch.dtype = torch.bfloat16) -> Llama:
    """On the meta device: shapes and dtypes alone."""
    size = LlamaSize(layers, 4096, 32, 14336, 128256, BATCH, SEQ, kv_heads=8)
    with torch.device("meta"):
        return Llama(size, norm=RMSNorm).to(dtype)
