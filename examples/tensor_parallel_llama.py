"""A Llama layer under tensor and sequence parallelism, trained by torch alone and with shardprop.

The model and its parallel plan are those of any torch tutorial; the only line about shardprop is
``with shardprop.enabled(strict=True)``. Both runs have to give the same losses, to the bit.

Run it: ``python examples/tensor_parallel_llama.py`` (rank 0 of 8 ranks that are not there), or
``torchrun --nproc-per-node 4 examples/tensor_parallel_llama.py`` on gloo.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

import shardprop

DIM, HEADS, HIDDEN, VOCAB, BATCH, SEQ = 64, 8, 128, 256, 2, 32


class Attention(nn.Module):
    """Causal attention, heads over the ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(DIM, DIM, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, seq, DIM] in and out."""
        heads = (w(x).unflatten(-1, (-1, DIM // HEADS)) for w in (self.wq, self.wk, self.wv))
        q, k, v = (each.transpose(1, 2) for each in heads)
        scores = (q @ k.transpose(-1, -2) / (DIM // HEADS) ** 0.5).softmax(-1)
        return self.wo((scores @ v).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w3 = (nn.Linear(DIM, HIDDEN, bias=False) for _ in range(2))
        self.w2 = nn.Linear(HIDDEN, DIM, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, seq, DIM] in and out."""
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Llama(nn.Module):
    """Token ids [batch, seq] to logits [batch, seq, VOCAB]."""

    def __init__(self) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCAB, DIM)
        self.attention_norm, self.ffn_norm, self.norm = (nn.RMSNorm(DIM) for _ in range(3))
        self.attention, self.feed_forward = Attention(), FeedForward()
        self.output = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tok_embeddings(ids)
        x = x + self.attention(self.attention_norm(x))
        x = x + self.feed_forward(self.ffn_norm(x))
        return self.output(self.norm(x))


def parallelize(model: Llama, mesh: DeviceMesh) -> None:
    """Weights over the mesh; between the blocks each rank has a part of the sequence."""
    whole = PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())
    column = ColwiseParallel(use_local_output=False)
    row = RowwiseParallel(output_layouts=Shard(1), use_local_output=False)
    parallelize_module(
        model,
        mesh,
        {
            "tok_embeddings": RowwiseParallel(
                input_layouts=Replicate(), output_layouts=Shard(1), use_local_output=False
            ),
            "attention_norm": SequenceParallel(),
            "attention": whole,
            **dict.fromkeys(("attention.wq", "attention.wk", "attention.wv"), column),
            "attention.wo": row,
            "ffn_norm": SequenceParallel(),
            "feed_forward": whole,
            **dict.fromkeys(("feed_forward.w1", "feed_forward.w3"), column),
            "feed_forward.w2": row,
            "norm": SequenceParallel(),
            "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        },
    )


def train(mesh: DeviceMesh, steps: int = 3) -> list[float]:
    """The losses of a few steps from the same start."""
    torch.manual_seed(0)
    model = Llama()
    parallelize(model, mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    ids = torch.randint(VOCAB, (BATCH, SEQ + 1))
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def main() -> None:
    """Trains twice and compares."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    by_torch = train(mesh)
    with shardprop.enabled(strict=True):
        losses = train(mesh)
    stats = shardprop.stats()
    if losses != by_torch:
        raise SystemExit(f"Losses differ: {losses} with shardprop, {by_torch} without.")
    if dist.get_rank() == 0:
        print("losses", *(f"{loss:.4f}" for loss in losses), "(the same with torch alone)")
        print(f"{stats.decisions} decisions by the core, {sum(stats.fallbacks.values())} fallbacks")


if __name__ == "__main__":
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("fake", rank=0, world_size=8)
    main()
    dist.destroy_process_group()
