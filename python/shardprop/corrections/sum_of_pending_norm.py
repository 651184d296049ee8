"""Sums of norms that are pending."""

from __future__ import annotations

import torch

from .._torch import NormPartial, OpSchema
from .correction import CallCorrection
from .operands import operands

aten = torch.ops.aten


def _concerns(schema: OpSchema) -> bool:
    return any(
        isinstance(placement, NormPartial)
        for spec in operands(schema)
        for placement in spec.placements
    )


SUM_OF_PENDING_NORM = CallCorrection(
    name="sum of a pending norm",
    ops=(
        aten.sum.default,
        aten.sum.dim_IntList,
        torch.ops.prims.sum.default,
        aten.any.default,
        aten.any.dim,
        aten.any.dims,
        aten.any.out,
    ),
    concerns=_concerns,
    fault="takes a norm that is pending, which is a root of a sum of powers, for a pending sum, "
    "and adds up the norms of the parts.",
    right="reduces it first.",
    ends="torch 2.15, which lists rows of its own for these ops.",
)
