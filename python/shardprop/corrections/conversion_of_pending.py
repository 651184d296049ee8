"""Reductions that convert what is pending to another dtype."""

from __future__ import annotations

import torch

from .._torch import DTensorSpec, OpSchema
from ..rules.pending_partials import is_truncated
from .correction import CallCorrection
from .operands import dtype_of, first, pending

aten = torch.ops.aten
prims = torch.ops.prims

_SUMS = (aten.sum.default, aten.sum.dim_IntList, prims.sum.default)
_PRODUCTS = (aten.prod.default, aten.prod.dim_int, aten.prod.int_out, prims.prod.default)
_TRUTH = (aten.any.default, aten.any.dim, aten.any.dims, aten.any.out)
_AVERAGE = (aten.mean.default, aten.mean.dim, aten.mean.out)


def _concerns(schema: OpSchema) -> bool:
    to = _output_dtype(schema)
    return any(_is_lost(reduce_op, dtype_of(spec), to) for spec, reduce_op in pending(schema))


def _output_dtype(schema: OpSchema) -> torch.dtype:
    """The dtype in which the op reduces, or into which it writes."""
    kwargs = schema.kwargs_schema
    given = kwargs.get("dtype") or kwargs.get("output_dtype")
    if isinstance(given, torch.dtype):
        return given
    out = kwargs.get("out")
    if isinstance(out, DTensorSpec):
        return dtype_of(out)
    source = dtype_of(first(schema))
    if schema.op in _TRUTH:
        return torch.uint8 if source is torch.uint8 else torch.bool
    is_exact = not (source.is_floating_point or source.is_complex)
    return torch.int64 if is_exact and schema.op not in _AVERAGE else source


def _is_lost(reduce_op: str, source: torch.dtype, to: torch.dtype) -> bool:
    if source == to:
        return False
    if torch.bool in (source, to):
        return reduce_op == "sum"
    if source.is_complex and not to.is_complex and reduce_op == "product":
        return True
    return is_truncated(source, to)


CONVERSION_OF_PENDING = CallCorrection(
    name="conversion of what is pending",
    ops=(
        *_SUMS,
        *_TRUTH,
        *_PRODUCTS,
        *_AVERAGE,
    ),
    concerns=_concerns,
    fault="lets a Partial through a reduction that converts first: a pending sum of bools is a "
    "logical or, which as numbers are added is a count; fractions that are cut off add up; of "
    "numbers that add up to zero some are not.",
    right="reduces it first.",
    ends="rows of torch's own that look at dtypes; those of 2.15 for sums and products do not.",
    in_rows=(*_SUMS, *_PRODUCTS),
)
