"""A small Llama: RMSNorm, rotary embedding, grouped-query attention, SwiGLU, tied or own output.

The model knows nothing of DTensor; `parallelize` places it with torch's tensor-parallel styles,
with the sequence sharded between the blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.experimental import implicit_replication
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.attention import SDPBackend, sdpa_kernel


@dataclass(frozen=True)
class Size:
    """Sizes in elements; small, and divisible by meshes of four ranks."""

    layers: int = 2
    dim: int = 32
    heads: int = 8
    kv_heads: int = 4
    hidden: int = 64
    vocab: int = 64
    batch: int = 4
    seq: int = 8

    @property
    def head_dim(self) -> int:
        """Elements per attention head."""
        return self.dim // self.heads


class Attention(nn.Module):
    """Causal attention in which several query heads share one head of keys and values."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.head_dim = size.head_dim
        self.groups = size.heads // size.kv_heads
        self.wq = nn.Linear(size.dim, size.heads * size.head_dim, bias=False)
        self.wk = nn.Linear(size.dim, size.kv_heads * size.head_dim, bias=False)
        self.wv = nn.Linear(size.dim, size.kv_heads * size.head_dim, bias=False)
        self.wo = nn.Linear(size.heads * size.head_dim, size.dim, bias=False)

    def forward(self, x: Tensor, rotation: Tensor) -> Tensor:
        """[batch, seq, dim] in and out; `rotation` [2, seq, head_dim] holds cosines and sines."""
        batch, seq, _ = x.shape
        # -1, since under tensor parallelism with local outputs a rank sees its own heads only.
        q, k, v = (
            linear(x).view(batch, seq, -1, self.head_dim) for linear in (self.wq, self.wk, self.wv)
        )
        q, k = rotate(q, rotation), rotate(k, rotation)
        k, v = repeat_heads(k, self.groups), repeat_heads(v, self.groups)
        # DTensor has rules for the fused kernels of CUDA, and none for the CPU's.
        # The unfused one makes a causal mask of its own, as a plain tensor.
        backend = SDPBackend.MATH if isinstance(q, DTensor) else SDPBackend.FLASH_ATTENTION
        with sdpa_kernel(backend), implicit_replication():
            mixed = F.scaled_dot_product_attention(
                q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
            )
        return self.wo(mixed.transpose(1, 2).contiguous().view(batch, seq, -1))


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotary position embedding of [batch, seq, heads, head_dim]."""
    cos, sin = (part.unsqueeze(0).unsqueeze(2) for part in rotation.unbind(0))
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def repeat_heads(x: Tensor, times: int) -> Tensor:
    """[batch, seq, heads, head_dim] with every head `times` times in a row."""
    batch, seq, heads, head_dim = x.shape
    spread = x.unsqueeze(3).expand(batch, seq, heads, times, head_dim)
    return spread.reshape(batch, seq, heads * times, head_dim)


class FeedForward(nn.Module):
    """SwiGLU: w2(silu(w1(x)) * w3(x))."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.w1 = nn.Linear(size.dim, size.hidden, bias=False)
        self.w2 = nn.Linear(size.hidden, size.dim, bias=False)
        self.w3 = nn.Linear(size.dim, size.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    """Attention and SwiGLU, each after a norm and added to the residual stream."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(size.dim, eps=1e-5)
        self.attention = Attention(size)
        self.ffn_norm = nn.RMSNorm(size.dim, eps=1e-5)
        self.feed_forward = FeedForward(size)

    def forward(self, x: Tensor, rotation: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), rotation)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    """Token ids [batch, seq] to logits [batch, seq, vocab]."""

    rotation: Tensor

    def __init__(self, size: Size, *, tied: bool = False) -> None:
        super().__init__()
        self.tied = tied
        self.embedding = nn.Embedding(size.vocab, size.dim)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.dim, eps=1e-5)
        self.output = nn.Linear(size.dim, size.vocab, bias=False)
        self.register_buffer("rotation", _rotation(size))
        self.tie()

    def tie(self) -> None:
        """Let the output use the embedding's weight, if it should."""
        if self.tied:
            self.output.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, self.rotation)
        return self.output(self.norm(x))


def _rotation(size: Size) -> Tensor:
    """Cosine and sine of the angle of every position and head element."""
    half = size.head_dim // 2
    angles = torch.outer(torch.arange(size.seq), 10_000.0 ** (-torch.arange(half) / half))
    angles = torch.cat((angles, angles), dim=-1)
    return torch.stack((angles.cos(), angles.sin()))


def build(size: Size, *, tied: bool = False) -> Llama:
    """The model with the same weights on every rank and in every run."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Llama(size, tied=tied)


def parallelize(
    model: Llama, mesh: DeviceMesh, *, local_attention: bool = True, loss_parallel: bool = False
) -> Llama:
    """Tensor parallelism over a mesh of one dim, activations between the blocks sequence-sharded.

    With `local_attention` the heads are computed on plain tensors, as torch's styles do by
    default; without it attention runs on DTensors too.
    """
    logits = Shard(-1) if loss_parallel else Replicate()
    parallelize_module(
        model,
        mesh,
        {
            "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "output": ColwiseParallel(
                input_layouts=Shard(1), output_layouts=logits, use_local_output=not loss_parallel
            ),
        },
    )
    for block in model.blocks:
        parallelize_module(block, mesh, _block_plan(local_attention))
    model.tie()
    return model


def _block_plan(local_attention: bool) -> dict[str, ParallelStyle]:
    gathered: ParallelStyle
    if local_attention:
        gathered = PrepareModuleInput(
            input_layouts=(Shard(1), None), desired_input_layouts=(Replicate(), None)
        )
    else:
        gathered = PrepareModuleInput(
            input_layouts=(Shard(1), Replicate()), desired_input_layouts=(Replicate(), Replicate())
        )
    return {
        "attention_norm": SequenceParallel(),
        "attention": gathered,
        "attention.wq": ColwiseParallel(use_local_output=local_attention),
        "attention.wk": ColwiseParallel(use_local_output=local_attention),
        "attention.wv": ColwiseParallel(use_local_output=local_attention),
        "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
        "ffn_norm": SequenceParallel(),
        "feed_forward": PrepareModuleInput(
            input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
        ),
        "feed_forward.w1": ColwiseParallel(),
        "feed_forward.w3": ColwiseParallel(),
        "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
    }
