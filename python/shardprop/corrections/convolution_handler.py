"""Convolutions, of which torch's dispatcher moves no operand."""

from __future__ import annotations

import torch

from .._torch import OpSchema
from .correction import CallCorrection
from .operands import operands, shards_of

aten = torch.ops.aten


def _concerns(schema: OpSchema) -> bool:
    """Is anything but batches sharded? (The handler itself moves the gradient of the output.)"""
    image, *rest = [*operands(schema)][schema.op is aten.convolution_backward.default :]
    batches = shards_of(image, 0)
    return any(not p.is_replicate() and p not in batches for p in image.placements) or any(
        not p.is_replicate() for spec in rest for p in spec.placements
    )


_OPS = (aten.convolution.default, aten.convolution_backward.default)

CONVOLUTION_HANDLER = CallCorrection(
    name="convolution that moves nothing",
    ops=_OPS,
    concerns=_concerns,
    fault="hands the op to a handler that asks for a decision and does not carry it out: operands "
    "stay where they are, and what comes out passes for what was decided.",
    right="moves the operands as decided, and runs what the handler runs.",
    ends="a handler of torch's that moves operands, or none.",
    in_rows=_OPS,
)
