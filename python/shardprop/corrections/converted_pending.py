"""A copy in another dtype of what is pending, which torch takes for a linear op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .._torch import OpSchema, Partial
from ..rules.pending_partials import passes_conversion
from .correction import CallCorrection
from .operands import argument, dtype_of, pending

aten = torch.ops.aten

# In training it comes apart before the dispatcher sees it; in inference mode it does not.
_OPS = (aten.to.dtype,)


def _concerns(schema: OpSchema) -> bool:
    to = argument(schema, 1)
    assert isinstance(to, torch.dtype)
    return any(not _passes(reduce_op, dtype_of(spec), to) for spec, reduce_op in pending(schema))


def _keeps(row: Sequence[Any], args: tuple[Any, ...]) -> bool:
    return all(
        _passes(cell.reduce_op, args[0].dtype, args[1]) for cell in row if isinstance(cell, Partial)
    )


def _passes(reduce_op: str, source: torch.dtype, to: torch.dtype) -> bool:
    """As other conversions, and no negative number is to become a large one."""
    keeps_order = to.is_signed or not source.is_signed or reduce_op not in ("max", "min")
    return keeps_order and passes_conversion(reduce_op, source, to)


CONVERTED_PENDING = CallCorrection(
    name="copy of what is pending in another dtype",
    ops=_OPS,
    concerns=_concerns,
    fault="lets every Partial through `to(dtype)` in inference mode: fractions that are cut off "
    "add up, of numbers that add up to zero some are not, and negative numbers become large ones "
    "without a sign.",
    right="reduces it first.",
    ends="rows of torch's own that look at dtypes, as those of `_to_copy` do.",
    in_rows=_OPS,
    keeps=_keeps,
)
