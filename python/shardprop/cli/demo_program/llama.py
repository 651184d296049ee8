"""A Llama of any size, its modules named as in torchtitan: RMSNorm, rotary positions, grouped
queries, SwiGLU, an output of its own or tied to the embedding.

The model knows nothing of DTensor. How it attends and how it normalises are arguments; a caller
shards it by torch's parallel styles or by hooks on its modules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["CausalAttention", "FeedForward", "Llama", "LlamaSize"]


@dataclass(frozen=True)
class LlamaSize:
    """Sizes of the model and of one batch, in elements; `kv_heads` None: as many as `heads`."""

    layers: int = 2
    dim: int = 64
    heads: int = 4
    hidden: int = 128
    vocab: int = 256
    batch: int = 8
    seq: int = 16
    kv_heads: int | None = None

    @property
    def head_dim(self) -> int:
        """Elements per attention head."""
        return self.dim // self.heads


class CausalAttention(nn.Module):
    """Each position attends to itself and to those before, in one fused call."""

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """[batch, heads, seq, head_dim] in and out."""
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Attention(nn.Module):
    """Rotary positions, and several query heads for each head of keys and values."""

    def __init__(self, size: LlamaSize, inner: nn.Module) -> None:
        super().__init__()
        kv_heads = size.kv_heads or size.heads
        self.head_dim = size.head_dim
        self.heads_per_kv_head = size.heads // kv_heads
        self.wq = nn.Linear(size.dim, size.dim, bias=False)
        self.wk = nn.Linear(size.dim, kv_heads * size.head_dim, bias=False)
        self.wv = nn.Linear(size.dim, kv_heads * size.head_dim, bias=False)
        self.wo = nn.Linear(size.dim, size.dim, bias=False)
        self.inner_attention = inner

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[batch, seq, dim] in and out; `cos` and `sin` [seq, 1, head_dim / 2]."""
        batch, seq, _ = x.shape
        # -1: under tensor parallelism with local outputs a rank sees its own heads only.
        q, k, v = (w(x).view(batch, seq, -1, self.head_dim) for w in (self.wq, self.wk, self.wv))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if self.heads_per_kv_head > 1:
            k, v = (repeat_heads(each, self.heads_per_kv_head) for each in (k, v))
        mixed = self.inner_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        joined: Tensor = self.wo(mixed.transpose(1, 2).reshape(batch, seq, -1))
        return joined


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """[batch, seq, heads, head_dim], its two halves turned as one complex number."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


def repeat_heads(x: Tensor, times: int) -> Tensor:
    """[batch, seq, heads, head_dim] with every head `times` times in a row."""
    batch, seq, heads, head_dim = x.shape
    spread = x[:, :, :, None, :].expand(batch, seq, heads, times, head_dim)
    return spread.reshape(batch, seq, heads * times, head_dim)


class FeedForward(nn.Module):
    """SwiGLU: w2(silu(w1(x)) * w3(x))."""

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.w1 = nn.Linear(size.dim, size.hidden, bias=False)
        self.w2 = nn.Linear(size.hidden, size.dim, bias=False)
        self.w3 = nn.Linear(size.dim, size.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, seq, dim] in and out."""
        out: Tensor = self.w2(F.silu(self.w1(x)) * self.w3(x))
        return out


class TransformerBlock(nn.Module):
    """Attention and SwiGLU, each after a norm and added to the residual stream."""

    def __init__(
        self, size: LlamaSize, attention: nn.Module, norm: Callable[[int], nn.Module]
    ) -> None:
        super().__init__()
        self.attention_norm = norm(size.dim)
        self.attention = Attention(size, attention)
        self.ffn_norm = norm(size.dim)
        self.feed_forward = FeedForward(size)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[batch, seq, dim] in and out."""
        x = x + self.attention(self.attention_norm(x), cos, sin)
        out: Tensor = x + self.feed_forward(self.ffn_norm(x))
        return out


# With the epsilon of Llama 3.
rms_norm = partial(nn.RMSNorm, eps=1e-5)


class Llama(nn.Module):
    """Token ids [batch, seq] to logits [batch, seq, vocab].

    Args:
        size: Sizes of the model; `batch` is not looked at.
        attention: Makes what takes queries, keys and values, each [batch, heads, seq, head_dim].
        norm: Makes a norm over the last dim, of that many elements.
        tied: The output uses the embedding's weight.
    """

    cos: Tensor
    sin: Tensor

    def __init__(
        self,
        size: LlamaSize,
        *,
        attention: Callable[[LlamaSize], nn.Module] = CausalAttention,
        norm: Callable[[int], nn.Module] = rms_norm,
        tied: bool = False,
    ) -> None:
        super().__init__()
        self.tied = tied
        self.tok_embeddings = nn.Embedding(size.vocab, size.dim)
        self.layers = nn.ModuleList(
            TransformerBlock(size, attention(size), norm) for _ in range(size.layers)
        )
        self.norm = norm(size.dim)
        self.output = nn.Linear(size.dim, size.vocab, bias=False)
        half = size.head_dim // 2
        frequencies = 10_000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.outer(torch.arange(size.seq, dtype=torch.float64), frequencies)[:, None]
        self.register_buffer("cos", angles.cos().to(torch.get_default_dtype()))
        self.register_buffer("sin", angles.sin().to(torch.get_default_dtype()))
        self.tie()

    def tie(self) -> None:
        """Let the output use the embedding's weight, if it should; again after sharding."""
        if self.tied:
            self.output.weight = self.tok_embeddings.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits, not yet normalised."""
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits: Tensor = self.output(self.norm(x))
        return logits
