"""Shards of an index and of what it indexes, where their sizes differ."""

from __future__ import annotations

import torch

from .._torch import OpSchema
from .correction import CallCorrection
from .operands import argument, operands

aten = torch.ops.aten


def _concerns(schema: OpSchema) -> bool:
    along, specs = argument(schema, 1), [*operands(schema)]
    ndim = specs[0].ndim
    if not isinstance(along, int) or any(spec.ndim != ndim for spec in specs):
        return False
    is_differing = any(
        dim != along % ndim and any(spec.shape[dim] != specs[0].shape[dim] for spec in specs)
        for dim in range(ndim)
    )
    # What is pending, or cut along another dim, may become a shard of one that differs.
    return is_differing and not all(spec.is_replicated() for spec in specs)


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
