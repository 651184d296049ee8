"""A copy in another dtype of what is pending, which torch takes for a linear op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .._torch import OpSchema, Partial
from ..rules.pending_partials import keeps_order, passes_conversion
from .correction import CallCorrection
from .operands import argument, dtype_of, first, pending

aten = torch.ops.aten

# In training it comes apart before the dispatcher sees it; in inference mode it does not.
_TO = aten.to.dtype
_INTO = aten.copy_.default
# What torch's own rows for it get wrong is the order of numbers alone.
_COPY = aten._to_copy.default


def _concerns(schema: OpSchema) -> bool:
    to = _target(schema)
    return any(not _passes(reduce_op, dtype_of(spec), to) for spec, reduce_op in pending(schema))


def _target(schema: OpSchema) -> torch.dtype:
    if schema.op is _TO:
        to = argument(schema, 1)
        assert isinstance(to, torch.dtype)
        return to
    given = schema.kwargs_schema.get("dtype") if schema.op is _COPY else None
    return given if isinstance(given, torch.dtype) else dtype_of(first(schema))


def _keeps(row: Sequence[Any], args: tuple[Any, ...]) -> bool:
    partials = [cell.reduce_op for cell in row if isinstance(cell, Partial)]
    if len(args) == 1:  # the dtype is given by keyword: torch's rows see to all but the order
        return not _BY_ORDER & {*partials}
    is_into = not isinstance(args[1], torch.dtype)
    source, to = (args[1].dtype, args[0].dtype) if is_into else (args[0].dtype, args[1])
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
    "fractions that are cut off add up, and of numbers that add up to zero some are not. It lets "
    "maxima, minima and averages through each conversion to integers, in which negative numbers "
    "become large ones without a sign, and large ones small ones of fewer bits.",
    right="reduces it first.",
    ends="rows of torch's own that look at dtypes, and at their ranges.",
    in_rows=(_TO, _INTO, _COPY),
    keeps=_keeps,
)
