"""The backward of a slice or selection of a dim that is counted from the end."""

from __future__ import annotations

import torch

from .._torch import OpSchema
from .correction import CallCorrection
from .operands import argument, first, shards_of

aten = torch.ops.aten


def _concerns(schema: OpSchema) -> bool:
    dim, spec = argument(schema, 2), first(schema)
    if not isinstance(dim, int) or dim >= 0:
        return False
    if schema.op is aten.slice_backward.default:
        return bool(shards_of(spec, dim + spec.ndim))
    # Of a selection's gradient, which lacks the dim, shards before it stay; torch moves them all.
    return any(shards_of(spec, before) for before in range(dim + spec.ndim + 1))


BACKWARD_FROM_THE_END = CallCorrection(
    name="backward of a slice of a dim counted from the end",
    ops=(aten.select_backward.default, aten.slice_backward.default),
    concerns=_concerns,
    fault="compares the dim as given with those of shards, and claims shards of other dims, or of "
    "the sliced one.",
    right="counts the dim from the front.",
    ends="torch 2.15, which lists rows of its own for these ops.",
)
