"""Pooling averages of integers that are pending."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .._torch import OpSchema, Partial
from .correction import CallCorrection
from .operands import dtype_of, first, is_pending

if TYPE_CHECKING:
    from ..rules.kept_rows import RowCall

aten = torch.ops.aten


def _concerns(schema: OpSchema) -> bool:
    dtype = dtype_of(first(schema))
    is_exact = not (dtype.is_floating_point or dtype.is_complex)
    return is_exact and is_pending(schema, "sum", "avg")


def _keeps(row: Sequence[Any], _: RowCall) -> bool:
    return not any(isinstance(p, Partial) and p.reduce_op in ("sum", "avg") for p in row)


_OPS = (
    aten.avg_pool1d.default,
    aten.avg_pool2d.default,
    aten.avg_pool3d.default,
    aten.adaptive_avg_pool1d.default,
    aten._adaptive_avg_pool2d.default,
    aten._adaptive_avg_pool3d.default,
    aten.avg_pool1d.out,
    aten.avg_pool2d.out,
    aten.avg_pool3d.out,
    aten.adaptive_avg_pool1d.out,
    aten._adaptive_avg_pool2d.out,
    aten._adaptive_avg_pool3d.out,
)

AVERAGE_OF_INTEGERS = CallCorrection(
    name="average of integers",
    ops=_OPS,
    concerns=_concerns,
    fault="lets a Partial through a pooling average of integers, which is rounded.",
    right="reduces it first.",
    ends="rows of torch's own that look at dtypes; those of 2.15 do not.",
    in_rows=_OPS,
    keeps=_keeps,
)
