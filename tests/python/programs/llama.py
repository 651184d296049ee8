"""The package's Llama, with grouped queries, under torch's tensor-parallel styles: the sequence is
sharded between the blocks."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
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

from shardprop.cli.demo_program.llama import CausalAttention, Llama, LlamaSize

from ..device import DEVICE

# Small, and divisible by meshes of four ranks.
Size = partial(LlamaSize, dim=32, heads=8, kv_heads=4, hidden=64, vocab=64, batch=4, seq=8)


class KernelByTensor(CausalAttention):
    """On the CPU unfused on DTensors: they have rules for the fused kernels of CUDA alone. The
    unfused one makes a causal mask of its own, as a plain tensor."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if DEVICE == "cuda":
            backend = SDPBackend.EFFICIENT_ATTENTION
        else:
            backend = SDPBackend.MATH if isinstance(q, DTensor) else SDPBackend.FLASH_ATTENTION
        with sdpa_kernel(backend), implicit_replication():
            return super().forward(q, k, v)


def build(size: LlamaSize, *, tied: bool = False) -> Llama:
    """The model with the same weights on every rank and in every run."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Llama(size, attention=KernelByTensor, tied=tied).to(DEVICE)


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
            "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "output": ColwiseParallel(
                input_layouts=Shard(1), output_layouts=logits, use_local_output=not loss_parallel
            ),
        },
    )
    for layer in model.layers:
        parallelize_module(layer, mesh, _layer_plan(local_attention))
    model.tie()
    return model


def _layer_plan(local_attention: bool) -> dict[str, ParallelStyle]:
    rotation = None if local_attention else Replicate()
    return {
        "attention_norm": SequenceParallel(),
        "attention": PrepareModuleInput(
            input_layouts=(Shard(1), rotation, rotation),
            desired_input_layouts=(Replicate(), rotation, rotation),
        ),
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
