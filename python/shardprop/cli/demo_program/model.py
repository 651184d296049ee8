"""A small Llama-style transformer whose parameters and activations can be DTensors.

Every product is written with view, transpose and matmul, the way model code is, so that a
sequence-sharded or head-sharded activation is flattened before its mm or bmm. Flattening
(batch on dp, sequence on sp) into one dim is what makes DTensor produce `_StridedShard`.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layout import Layout
from .settings import ModelSize

# Which tensor dim of a weight each mesh dim shards. Column-parallel weights split their outputs
# over tp, row-parallel ones their inputs; fsdp takes the other dim, so no dim is sharded twice.
COLUMN = {"tp": 0, "fsdp": 1}
ROW = {"tp": 1, "fsdp": 0}
# Not over fsdp: a masked partial sum holds its mask in the layout of the tokens, and torch fails
# to sum it after moving its other dims.
EMBEDDING = {"tp": 0}

HEADS = {"dp": 0, "fsdp": 0, "tp": 1}
"""[batch, heads, ...]: keys and values, whole sequences of a part of the heads."""


class Block(nn.Module):
    """RMSNorm, attention, RMSNorm, SwiGLU, each pair added to the residual stream."""

    def __init__(self, size: ModelSize, layout: Layout) -> None:
        super().__init__()
        self.size, self.layout = size, layout
        self.attention_norm = nn.RMSNorm(size.dim, eps=1e-5)
        self.mlp_norm = nn.RMSNorm(size.dim, eps=1e-5)
        self.wq, self.wk, self.wv, self.wo = (
            nn.Linear(size.dim, size.dim, bias=False) for _ in range(4)
        )
        self.gate = nn.Linear(size.dim, size.hidden, bias=False)
        self.up = nn.Linear(size.dim, size.hidden, bias=False)
        self.down = nn.Linear(size.hidden, size.dim, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        """[batch, seq, dim] in and out; `cos`, `sin` [seq, head_dim], `mask` [seq, seq]."""
        # Constraining the norm's output moves nothing forward. Backward it sums, once, the partial
        # gradients that the column-parallel weights leave on tp.
        normed = self.layout.hidden_state(self.attention_norm(x))
        x = x + self.attention(normed, cos, sin, mask)
        normed = self.layout.hidden_state(self.mlp_norm(x))
        return x + self.mlp(normed)

    def attention(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        """Causal attention; each rank keeps its queries and gathers the sequence of keys."""
        batch, seq, dim = x.shape
        q, k, v = (
            linear(x).view(batch, seq, self.size.heads, self.size.head_dim).transpose(1, 2)
            for linear in (self.wq, self.wk, self.wv)
        )
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        # Gather the keys as [.., head_dim, seq], the form matmul reads. Gathered before the
        # transpose, their gradient would be redistributed while transposed: torch then keeps the
        # old global strides over a contiguous local tensor, and a later view of it fails.
        keys = self.layout.constrain(k.transpose(-1, -2), **HEADS)
        values = self.layout.constrain(v, **HEADS)
        scores = torch.matmul(q, keys) / math.sqrt(self.size.head_dim) + mask
        mixed = torch.matmul(torch.softmax(scores, dim=-1), values)
        joined = mixed.transpose(1, 2).contiguous().view(batch, seq, dim)
        return self.layout.hidden_state(self.wo(joined))

    def mlp(self, x: Tensor) -> Tensor:
        """SwiGLU: down(silu(gate(x)) * up(x))."""
        return self.layout.hidden_state(self.down(F.silu(self.gate(x)) * self.up(x)))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding of [..., seq, head_dim], the two halves as one complex number."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Transformer(nn.Module):
    """Embedding, blocks, final norm, vocabulary head."""

    cos: Tensor
    sin: Tensor
    mask: Tensor

    def __init__(self, size: ModelSize, layout: Layout) -> None:
        super().__init__()
        self.size, self.layout = size, layout
        self.embedding = nn.Embedding(size.vocab, size.dim)
        self.blocks = nn.ModuleList(Block(size, layout) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.dim, eps=1e-5)
        self.head = nn.Linear(size.dim, size.vocab, bias=False)
        angles = _angles(size)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("mask", torch.full((size.seq, size.seq), -math.inf).triu(1))

    def forward(self, tokens: Tensor) -> Tensor:
        """Token ids [batch, seq] to logits [batch, seq, vocab]."""
        # A vocabulary-sharded embedding returns masked partial sums; they are summed here.
        x = self.layout.hidden_state(self.embedding(tokens))
        for block in self.blocks:
            x = block(x, self.cos, self.sin, self.mask)
        logits: Tensor = self.head(self.layout.hidden_state(self.norm(x)))
        return logits

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Mean cross entropy in nats per token."""
        logits = self(tokens)
        return F.cross_entropy(logits.view(-1, self.size.vocab), targets.view(-1))


def _angles(size: ModelSize) -> Tensor:
    """Rotation angle in radians of every position and head element, [seq, head_dim]."""
    half = size.head_dim // 2
    frequency = 10_000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.outer(torch.arange(size.seq, dtype=torch.float64), frequency)
    return torch.cat((angles, angles), dim=-1)


def build_model(size: ModelSize, layout: Layout, seed: int, dtype: torch.dtype) -> Transformer:
    """The model with the same weights on every rank and in every layout, parameters sharded."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(size, layout).to(dtype)
    plan: dict[str, dict[str, int]] = {"embedding": EMBEDDING, "wo": ROW, "down": ROW}
    plan |= dict.fromkeys(("wq", "wk", "wv", "gate", "up", "head"), COLUMN)
    for path, module in model.named_modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            sharded = layout.distribute(weight.detach(), **plan.get(path.split(".")[-1], {}))
            setattr(module, name, nn.Parameter(sharded))
    for name in ("cos", "sin", "mask"):
        setattr(model, name, layout.distribute(getattr(model, name), sp=0))
    return model
