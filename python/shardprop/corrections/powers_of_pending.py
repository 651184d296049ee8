"""Sums of powers of what is pending."""

from __future__ import annotations

import torch

from .._torch import OpSchema
from .correction import CallCorrection
from .operands import is_pending

aten = torch.ops.aten


def _concerns(schema: OpSchema) -> bool:
    return is_pending(schema, "sum")


_OPS = (aten.linalg__powsum.default, aten._foreach_powsum.Scalar)

POWERS_OF_PENDING = CallCorrection(
    name="powers of what is pending",
    ops=_OPS,
    concerns=_concerns,
    fault="lets a Partial(sum) through a sum of powers: the powers of the parts do not add up to "
    "those of the whole.",
    right="reduces it first.",
    ends="rows of torch's own that take no Partial(sum); those of 2.15 do.",
    in_rows=_OPS,
)
