"""Where the demo's tensors live on the mesh, said by the names of its dims.

Weights are sharded once; hooks on the model's modules redistribute activations at the few places
where a person would. Every product of the attention is written out, the way model code is, so that
a sharded activation is flattened before its mm or bmm: (batch on dp, sequence on sp) as one dim is
what makes DTensor produce `_StridedShard`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor

from .llama import Llama, LlamaSize

__all__ = ["WrittenOutAttention", "distribute", "parallelize"]

# Which tensor dim of a weight each mesh dim shards. Column-parallel weights split their outputs
# over tp, row-parallel ones their inputs; fsdp takes the other dim, so no dim is sharded twice.
_COLUMN = {"tp": 0, "fsdp": 1}
_ROW = {"tp": 1, "fsdp": 0}
# Not over fsdp: a masked partial sum holds its mask in the layout of the tokens, and torch fails
# to sum it after moving its other dims.
_EMBEDDING = {"tp": 0}

_WEIGHTS = {
    "tok_embeddings": _EMBEDDING,
    **dict.fromkeys(("wq", "wk", "wv", "w1", "w3", "output"), _COLUMN),
    **dict.fromkeys(("wo", "w2"), _ROW),
}

# [batch, heads, ...]: keys and values, whole sequences of a part of the heads.
_HEADS = {"dp": 0, "fsdp": 0, "tp": 1}

# Modules whose output is the residual stream, or is added to it. A vocabulary-sharded embedding
# gives masked partial sums, which are summed there. After a norm nothing moves forward; backward
# the partial gradients that the column-parallel weights leave on tp are summed, once.
_HIDDEN_STATE = frozenset(
    {"tok_embeddings", "attention_norm", "attention", "ffn_norm", "feed_forward", "norm"}
)


def placements(mesh: DeviceMesh, **tensor_dims: int) -> tuple[Placement, ...]:
    """One placement per mesh dim: `dp=0` shards tensor dim 0 over the mesh dim called dp.

    Names that the mesh does not have are ignored; mesh dims that are not named replicate.
    """
    names = mesh.mesh_dim_names or ()
    return tuple(Shard(tensor_dims[n]) if n in tensor_dims else Replicate() for n in names)


def distribute(tensor: Tensor, mesh: DeviceMesh, **tensor_dims: int) -> Tensor:
    """Turn a full tensor, the same on every rank, into a DTensor; no data is sent."""
    return distribute_tensor(tensor, mesh, placements(mesh, **tensor_dims), src_data_rank=None)


def parallelize(model: Llama, mesh: DeviceMesh) -> None:
    """Shard the weights over a mesh with named dims, and the activations between the modules."""
    for path, module in model.named_modules():
        name = path.rpartition(".")[2]
        for key, weight in list(module.named_parameters(recurse=False)):
            sharded = distribute(weight.detach(), mesh, **_WEIGHTS.get(name, {}))
            setattr(module, key, nn.Parameter(sharded))
        for key, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, key, distribute(buffer, mesh, sp=0))
        if name in _HIDDEN_STATE:
            module.register_forward_hook(_to_hidden_state)


def _to_hidden_state(_module: nn.Module, _inputs: Any, output: DTensor) -> DTensor:
    """Redistribute [batch, seq, dim] to the layout of the residual stream between the blocks.

    The sequence is sharded over sp, or over tp on a mesh without sp (Megatron's sequence
    parallelism). Not over both: torch 2.13 and 2.15 flatten such a tensor and then fail to view it
    back, since each strided shard claims the sequence dim for itself.
    """
    mesh = output.device_mesh
    sequence = "sp" if "sp" in (mesh.mesh_dim_names or ()) else "tp"
    return output.redistribute(placements=placements(mesh, **{"dp": 0, "fsdp": 0, sequence: 1}))


class WrittenOutAttention(nn.Module):
    """Causal attention as products and a softmax: each rank keeps its part of the queries, and
    gathers the sequence of keys and values. Plain tensors stay as they are."""

    mask: Tensor

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.register_buffer("mask", torch.full((size.seq, size.seq), -math.inf).triu(1))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """[batch, heads, seq, head_dim] in and out."""
        # Gather the keys as [.., head_dim, seq], the form matmul reads. Gathered before the
        # transpose, their gradient would be redistributed while transposed: torch then keeps the
        # old global strides over a contiguous local tensor, and a later view of it fails.
        keys, values = _whole_sequence(k.transpose(-1, -2)), _whole_sequence(v)
        scores = torch.matmul(q, keys) / math.sqrt(q.shape[-1]) + self.mask
        return torch.matmul(torch.softmax(scores, dim=-1), values)


def _whole_sequence(tensor: Tensor) -> Tensor:
    if not isinstance(tensor, DTensor):
        return tensor
    return tensor.redistribute(placements=placements(tensor.device_mesh, **_HEADS))
