"""Real and imaginary parts of what is pending, or of strided shards."""

from __future__ import annotations

import torch

from .._torch import OpSchema, StridedShard
from .correction import CallCorrection
from .operands import first, is_pending, shards_of


def _concerns(schema: OpSchema) -> bool:
    spec = first(schema)
    last = shards_of(spec, spec.ndim - 1)
    return is_pending(schema, "product") or any(isinstance(p, StridedShard) for p in last)


COMPLEX_AS_REAL = CallCorrection(
    name="real parts of complex numbers",
    ops=(torch.ops.aten.view_as_real.default,),
    concerns=_concerns,
    fault="lets a Partial(product) through, though a product's real part takes both parts of each "
    "factor, and puts strided shards of the last dim on the new one.",
    right="reduces the product first, and leaves the shards where they are.",
    ends="a single-dim rule of torch's own for the op.",
)
