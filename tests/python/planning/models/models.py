"""Small models to plan."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Mlp(nn.Module):
    """Two products with an activation between them."""

    def __init__(self, dim: int = 16, hidden: int = 32) -> None:
        super().__init__()
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(x)))


class Norm(nn.Module):
    """A mean square normed away, op by op."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Block(nn.Module):
    """Causal attention and an MLP, on a residual stream."""

    def __init__(self, dim: int, heads: int, *, fused: bool) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.attention_norm, self.mlp_norm = Norm(dim), Norm(dim)
        self.query, self.key, self.value, self.out = (
            nn.Linear(dim, dim, bias=False) for _ in range(4)
        )
        self.mlp = Mlp(dim, 4 * dim)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), mask)
        return x + self.mlp(self.mlp_norm(x))

    def attention(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, seq, dim = x.shape
        q, k, v = (
            linear(x).view(batch, seq, self.heads, dim // self.heads).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-1, -2) / math.sqrt(dim // self.heads) + mask
            mixed = torch.softmax(scores, -1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, seq, dim))


class Transformer(nn.Module):
    """Tokens and targets to their mean cross entropy."""

    mask: Tensor

    def __init__(
        self,
        layers: int = 1,
        dim: int = 32,
        heads: int = 4,
        vocab: int = 64,
        seq: int = 16,
        *,
        fused: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Block(dim, heads, fused=fused) for _ in range(layers))
        self.norm = Norm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.register_buffer("mask", torch.full((seq, seq), -1e9).triu(1))

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.mask)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Habits(nn.Module):
    """What else is found in models: writes into what was made, a module under two names, tied
    weights, a recomputed part, tensors made on the way, an op without a rule, a dict of outputs."""

    def __init__(self, dim: int = 16) -> None:
        super().__init__()
        self.first = nn.Linear(dim, dim)
        self.again = self.first
        self.tied = nn.Linear(dim, dim, bias=False)
        self.tied.weight = self.first.weight
        self.recomputed = Mlp(dim, 2 * dim)
        self.unused = nn.Parameter(torch.ones(dim))
        self.frozen = nn.Parameter(torch.full((dim,), 0.5), requires_grad=False)

    def forward(self, x: Tensor, scale: Tensor, *, shift: float = 0.5) -> dict[str, Tensor]:
        y = self.again(self.first(x))
        y += x
        y = F.relu(self.tied(y) * scale + shift, inplace=True) * self.frozen
        y = checkpoint(self.recomputed, y, use_reentrant=False)
        y = y + torch.arange(y.shape[-1], dtype=y.dtype) / y.shape[-1]
        distances = torch.cdist(y, y)
        return {"loss": distances.mean() + y.square().mean(), "y": y.transpose(0, 1)}


class Normed(nn.Module):
    """Convolutions with batch norms that write their running statistics, and dropout."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, bias=False)
        self.norm_again = nn.BatchNorm2d(channels)
        self.head = nn.Linear(channels, 4)

    def forward(self, images: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.first(images)), inplace=True), 2)
        x = F.dropout(F.relu(self.norm_again(self.second(x))), 0.2, self.training)
        x = F.adaptive_avg_pool2d(F.dropout2d(x, 0.2, self.training), 1).flatten(1)
        return self.head(x).square().mean()
