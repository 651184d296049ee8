"""Reductions over an empty list of dims, which reduce all."""

from __future__ import annotations

import torch

from .._torch import OpSchema
from .correction import CallCorrection
from .operands import argument, first

aten = torch.ops.aten

_NORMS = (aten.linalg_vector_norm.default, aten.linalg__powsum.default)


def _concerns(schema: OpSchema) -> bool:
    dims = argument(schema, 2 if schema.op in _NORMS else 1)
    spec = first(schema)
    if not isinstance(dims, (list, tuple)) or len(dims) > 0 or spec.ndim == 0:
        return False
    return any(not placement.is_replicate() for placement in spec.placements)


_OPS = (
    aten.sum.dim_IntList,
    aten.mean.dim,
    aten.mean.out,
    aten.amax.default,
    aten.amax.out,
    aten.amin.default,
    aten.amin.out,
    aten.logsumexp.default,
    aten.nansum.default,
    aten.std.correction,
    aten.std.correction_out,
    aten.var.correction,
    aten.var.correction_out,
    aten.var_mean.correction,
    torch.ops.prims.sum.default,
    *_NORMS,
)

NO_DIMS_NAMED = CallCorrection(
    name="reduction over an empty list of dims",
    ops=_OPS,
    concerns=_concerns,
    fault="takes such a reduction for one of no dim, though the op reduces all: each rank reduces "
    "its shard, and what it has passes for a part of the output. The gradients of amax, amin and "
    "the infinity norm call one: they are not a number.",
    right="reduces all dims.",
    ends="rules of torch's own that read an empty list as the op does.",
    in_rows=_OPS,
)
