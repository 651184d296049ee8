"""Pending bools joined with numbers."""

from __future__ import annotations

import torch

from .._torch import OpSchema
from .correction import CallCorrection
from .operands import dtype_of, operands, pending

aten = torch.ops.aten


def _concerns(schema: OpSchema) -> bool:
    is_mixed = len({dtype_of(spec) for spec in operands(schema)}) > 1
    return is_mixed and any(
        reduce_op == "sum" and dtype_of(spec) is torch.bool for spec, reduce_op in pending(schema)
    )


JOINED_BOOLS = CallCorrection(
    name="bools joined with numbers",
    ops=(aten.cat.default, aten.stack.default),
    concerns=_concerns,
    fault="lets a pending sum of bools, a logical or, become one of numbers.",
    right="reduces it first.",
    ends="rows of torch's own that look at dtypes; that of 2.15 for `cat` does not.",
    in_rows=(aten.cat.default,),
)
