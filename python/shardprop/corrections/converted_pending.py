"""A copy in another dtype of what is pending, which torch takes for a linear op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .._torch import OpSchema, Partial
from ..rules.pending_partials import keeps_order, passes_conversion
from .correction import CallCorrection
from .operands import argument, dtype_of, operands, pending

if TYPE_CHECKING:
    from ..rules.kept_rows import RowCall

aten = torch.ops.aten

# In training it comes apart before the dispatcher sees it; in inference mode it does not.
_TO = aten.to.dtype
_INTO = aten.copy_.default
_COPY = aten._to_copy.default


def _concerns(schema: OpSchema) -> bool:
    source, to = _dtypes(schema)
    return any(not _passes(reduce_op, source, to) for _, reduce_op in pending(schema))


def _dtypes(schema: OpSchema) -> tuple[torch.dtype, torch.dtype]:
    """Of what is copied, and of the copy."""
    specs = [*operands(schema)]
    if schema.op is _INTO:
        return dtype_of(specs[-1]), dtype_of(specs[0])
    given = argument(schema, 1) if schema.op is _TO else schema.kwargs_schema.get("dtype")
    source = dtype_of(specs[0])
    return source, given if isinstance(given, torch.dtype) else source


def _keeps(row: Sequence[Any], call: RowCall) -> bool:
    first, *others = call.args
    if call.op is _INTO:
        source, to = others[0].dtype, first.dtype
    else:
        source = first.dtype
        to = (others[0] if call.op is _TO else call.kwargs.get("dtype")) or source
    partials = [cell.reduce_op for cell in row if isinstance(cell, Partial)]
    return all(_passes(reduce_op, source, to) for reduce_op in partials)


_BY_ORDER = frozenset(("max", "min", "avg"))


def _passes(reduce_op: str, source: torch.dtype, to: torch.dtype) -> bool:
    """As other conversions, and no number is to become one that another was larger than."""
    is_in_order = reduce_op not in _BY_ORDER or keeps_order(source, to)
    return is_in_order and passes_conversion(reduce_op, source, to)


CONVERTED_PENDING = CallCorrection(
    name="copy of what is pending in another dtype",
    ops=(_TO, _INTO, _COPY),
    concerns=_concerns,
    fault="lets every Partial through `copy_`, and through `to(dtype)` in inference mode: "
    "fractions that are cut off add up, and of numbers that add up to zero some are not. It counts "
    "the ranks that have a true flag where flags become numbers, and lets "
    "maxima, minima and averages through each conversion to integers, in which negative numbers "
    "become large ones without a sign, and large ones small ones of fewer bits.",
    right="reduces it first.",
    ends="rows of torch's own that look at dtypes, and at their ranges.",
    in_rows=(_TO, _INTO, _COPY),
    keeps=_keeps,
)
