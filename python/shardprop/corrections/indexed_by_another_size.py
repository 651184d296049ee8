"""Shards of an index and of what it indexes, where their sizes differ."""

from __future__ import annotations

import torch

from .._torch import OpSchema, Partial
from .correction import CallCorrection
from .operands import argument, operands, shards_of

aten = torch.ops.aten


def _concerns(schema: OpSchema) -> bool:
    along, specs = argument(schema, 1), [*operands(schema)]
    ndim = specs[0].ndim
    if not isinstance(along, int) or any(spec.ndim != ndim for spec in specs):
        return False
    differing = [
        dim
        for dim in range(ndim)
        if dim != along % ndim and any(spec.shape[dim] != specs[0].shape[dim] for spec in specs)
    ]
    is_pending = any(isinstance(p, Partial) for spec in specs for p in spec.placements)
    is_cut = any(shards_of(spec, dim) for spec in specs for dim in differing)
    return is_cut or (is_pending and bool(differing))  # what is pending may become a shard


INDEXED_BY_ANOTHER_SIZE = CallCorrection(
    name="shards of an index and of what it indexes",
    ops=(aten.gather.default, aten.scatter_add.default),
    concerns=_concerns,
    fault="shards on a dim that the index does not run along, without a look at its sizes: where "
    "they differ, so do the elements that a rank holds of each.",
    right="shards on dims of one size alone.",
    ends="rows of torch's own that compare sizes; of 2.15, those of `scatter_add` do.",
    in_rows=(aten.gather.default,),
)
