"""A Llama 3 of any size, for planning: its shapes are those of the published model.

LLaMA3-8B: dim 4096, 32 query and 8 key heads, hidden 14336, vocabulary 128256
(https://arxiv.org/abs/2407.21783, table 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Size:
    """The published 8B, but for the number of layers."""

    layers: int = 2
    dim: int = 4096
    heads: int = 32
    kv_heads: int = 8
    hidden: int = 14336
    vocab: int = 128256
    seq: int = 8192

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads


class RMSNorm(nn.Module):
    """In float32, as Llama computes it."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return normed.type_as(x) * self.weight


class Attention(nn.Module):
    """Grouped queries, rotary positions, causal."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        self.wq = nn.Linear(size.dim, size.dim, bias=False)
        self.wk = nn.Linear(size.dim, size.kv_heads * size.head_dim, bias=False)
        self.wv = nn.Linear(size.dim, size.kv_heads * size.head_dim, bias=False)
        self.wo = nn.Linear(size.dim, size.dim, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, seq, _ = x.shape
        size = self.size
        q = self.wq(x).view(batch, seq, size.heads, size.head_dim)
        k = self.wk(x).view(batch, seq, size.kv_heads, size.head_dim)
        v = self.wv(x).view(batch, seq, size.kv_heads, size.head_dim)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = self._repeated(k), self._repeated(v)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(mixed.transpose(1, 2).reshape(batch, seq, size.dim))

    def _repeated(self, x: Tensor) -> Tensor:
        """Each key head for the query heads that share it."""
        size = self.size
        batch, seq = x.shape[:2]
        shared = size.heads // size.kv_heads
        wide = x[:, :, :, None, :].expand(batch, seq, size.kv_heads, shared, size.head_dim)
        return wide.reshape(batch, seq, size.heads, size.head_dim)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions of [batch, seq, heads, head_dim]; `cos` and `sin` [seq, 1, head_dim / 2]."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


class Block(nn.Module):
    """Norm, attention, norm, SwiGLU, each pair added to the residual stream."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(size.dim)
        self.attention = Attention(size)
        self.mlp_norm = RMSNorm(size.dim)
        self.gate = nn.Linear(size.dim, size.hidden, bias=False)
        self.up = nn.Linear(size.dim, size.hidden, bias=False)
        self.down = nn.Linear(size.hidden, size.dim, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), cos, sin)
        normed = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Llama(nn.Module):
    """Token ids [batch, seq] to logits [batch, seq, vocab]."""

    cos: Tensor
    sin: Tensor

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.vocab, size.dim)
        self.layers = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = RMSNorm(size.dim)
        self.head = nn.Linear(size.dim, size.vocab, bias=False)
        positions = (size.seq, 1, size.head_dim // 2)
        self.register_buffer("cos", torch.ones(positions))
        self.register_buffer("sin", torch.ones(positions))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.head(self.norm(x))


def build(size: Size, dtype: torch.dtype = torch.bfloat16) -> Llama:
    """On the meta device: shapes and dtypes alone."""
    with torch.device("meta"):
        return Llama(size).to(dtype)
