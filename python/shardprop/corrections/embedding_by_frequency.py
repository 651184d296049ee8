"""The backward of an embedding whose gradients are divided by how often an index occurs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .._torch import OpSchema
from .correction import CallCorrection
from .operands import argument, operands, shards_dim

if TYPE_CHECKING:
    from ..rules.kept_rows import RowCall

aten = torch.ops.aten


def _concerns(schema: OpSchema) -> bool:
    """Are the indices, or rows of the gradient, sharded?"""
    if not argument(schema, 4, False):
        return False
    grad, indices = operands(schema)
    last = grad.ndim - 1
    return any(not p.is_replicate() for p in indices.placements) or any(
        p.is_shard() and p.dim != last  # type: ignore[attr-defined]
        for p in grad.placements
    )


def _keeps(row: Sequence[Any], call: RowCall) -> bool:
    """Each rank has to count all indices."""
    grad, indices = call.operands_of(row)
    last = len(call.tensors[0].shape) - 1
    return bool(indices.is_replicate()) and not any(shards_dim(grad, dim) for dim in range(last))


_OPS = (aten.embedding_dense_backward.default,)

EMBEDDING_BY_FREQUENCY = CallCorrection(
    name="gradient of an embedding by frequency",
    ops=_OPS,
    concerns=_concerns,
    fault="lets each rank divide by how often an index occurs among its own "
    "(`scale_grad_by_freq=True`), and adds up what comes out.",
    right="gathers the indices and their gradients first; the width of the embedding may stay "
    "sharded.",
    ends="a rule of torch's own that looks at the argument.",
    in_rows=_OPS,
    keeps=_keeps,
)
