"""A copy in another dtype of what is pending, which torch takes for a linear op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .._torch import OpOverload, OpSchema, Partial
from ..rules.pending_partials import keeps_order, passes_conversion
from .correction import CallCorrection
from .operands import argument, operands, pending

if TYPE_CHECKING:
    from ..rules.kept_rows import RowCall

aten = torch.ops.aten

# In training it comes apart before the dispatcher sees it; in inference mode it does not.
_TO = aten.to.dtype
_INTO = aten.copy_.default
_COPY = aten._to_copy.default


def _concerns(schema: OpSchema) -> bool:
    metas = [spec.tensor_meta for spec in operands(schema)]
    source, to = _dtypes(schema.op, metas, argument(schema, 1), schema.kwargs_schema)
    return any(not _passes(reduce_op, source, to) for _, reduce_op in pending(schema))


def _dtypes(
    op: OpOverload, given: Sequence[Any], second: object, options: Mapping[str, Any]
) -> tuple[torch.dtype, torch.dtype]:
    """Of what is copied, and of the copy. `given` are the tensors, by what has a dtype."""
    source: torch.dtype = given[-1].dtype
    if op is _INTO:
        return source, given[0].dtype
    wanted = second if op is _TO else options.get("dtype")
    return source, wanted if isinstance(wanted, torch.dtype) else source


def _keeps(row: Sequence[Any], call: RowCall) -> bool:
    second = call.args[1] if len(call.args) > 1 else None
    source, to = _dtypes(call.op, call.tensors, second, call.kwargs)
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
