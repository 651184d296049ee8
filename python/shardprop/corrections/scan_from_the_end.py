"""Scans along a dim that is counted from the end."""

from __future__ import annotations

import torch

from .._torch import OpSchema
from .correction import CallCorrection
from .operands import argument, first, shards_of

aten = torch.ops.aten


def _concerns(schema: OpSchema) -> bool:
    dim, spec = argument(schema, 1), first(schema)
    return isinstance(dim, int) and dim < 0 and bool(shards_of(spec, dim + spec.ndim))


SCAN_FROM_THE_END = CallCorrection(
    name="scan along a dim counted from the end",
    ops=(aten.cumsum.default, aten.cumprod.default, aten.logcumsumexp.default),
    concerns=_concerns,
    fault="compares the dim as given with those of shards, which are counted from the front: it "
    "gathers nothing, and each rank scans its own shard.",
    right="gathers the dim first.",
    ends="torch 2.15, which lists rows of its own for these ops.",
)
