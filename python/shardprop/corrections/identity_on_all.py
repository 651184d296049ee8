"""``eye(n, m, out=...)``, which every rank writes whole."""

from __future__ import annotations

import torch

from .._torch import OpSchema
from .correction import CallCorrection
from .operands import first, is_pending, shards_of


def _concerns(schema: OpSchema) -> bool:
    out = first(schema)
    return is_pending(schema, "sum") or any(shards_of(out, dim) for dim in range(out.ndim))


IDENTITY_ON_ALL = CallCorrection(
    name="identity written by all ranks",
    ops=(torch.ops.aten.eye.m_out,),
    concerns=_concerns,
    fault="writes a whole identity into each shard, and into each part of a pending sum.",
    right="is refused: what is written into is not moved.",
    ends="torch 2.15, which lists rows of its own for the op.",
)
