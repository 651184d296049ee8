"""Pending maxima and minima that pass through ops which do not keep their order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .._torch import OpSchema, Partial
from .correction import CallCorrection
from .operands import argument, is_pending

if TYPE_CHECKING:
    from ..rules.kept_rows import RowCall

aten = torch.ops.aten


def _concerns(schema: OpSchema) -> bool:
    passes = schema.op not in _NORMS or argument(schema, 1) in _MAXIMUM_AND_MINIMUM_NORM
    return passes and is_pending(schema, "max", "min")


def _keeps(row: Sequence[Any], call: RowCall) -> bool:
    operand, *_ = call.operands_of(row)
    return not (isinstance(operand, Partial) and operand.reduce_op in ("max", "min"))


_MAXIMUM_AND_MINIMUM_NORM = (math.inf, -math.inf, "inf", "-inf")
_NORMS = (
    aten.linalg_vector_norm.default,
    aten.linalg_vector_norm.out,
    aten.norm.Scalar,
    aten._foreach_norm.Scalar,
)
_OPS = (
    aten.threshold.default,
    aten.threshold_.default,
    aten.threshold.out,
    aten._fft_c2c.default,
    aten._fft_c2c.out,
    aten._fft_c2r.default,
    aten._fft_c2r.out,
    aten._fft_r2c.default,
    aten._fft_r2c.out,
    *_NORMS,
)

EXTREMES_THROUGH_OPS = CallCorrection(
    name="extremes through ops",
    ops=_OPS,
    concerns=_concerns,
    fault="lets a maximum or minimum that is pending pass: the number that `threshold` puts in may "
    "be above those that stay, a Fourier transform adds up, and a maximum norm takes absolute "
    "values: the part that is not chosen may have the larger one.",
    right="reduces it first.",
    ends="rules of torch's own without these rows.",
    in_rows=_OPS,
    keeps=_keeps,
)
