"""Sums of powers of what is pending."""

from __future__ import annotations

import torch

from .._torch import OpSchema
from .correction import CallCorrection
from .operands import is_pending

aten = torch.ops.aten


def _concerns(schema: OpSchema) -> bool:
    return is_pending(schema, "sum")


POWERS_OF_PENDING = CallCorrection(
    name="powers of what is pending",
    ops=(aten.linalg__powsum.default, aten._foreach_powsum.Scalar),
    concerns=_concerns,
    fault="lets a Partial(sum) through a sum of powers: the powers of the parts do not add up to "
    "those of the whole.",
    right="reduces it first.",
    ends="torch 2.15, which lists rows of its own for these ops.",
)
