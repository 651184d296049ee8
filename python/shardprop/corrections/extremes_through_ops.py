"""Pending maxima and minima that pass through ops which do not keep their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .._torch import OpSchema, Partial
from .correction import CallCorrection
from .operands import is_pending

aten = torch.ops.aten


def _concerns(schema: OpSchema) -> bool:
    return is_pending(schema, "max", "min")


def _keeps(row: Sequence[Any], _: tuple[Any, ...]) -> bool:
    return not any(isinstance(p, Partial) and p.reduce_op in ("max", "min") for p in row)


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
)

EXTREMES_THROUGH_OPS = CallCorrection(
    name="extremes through ops",
    ops=_OPS,
    concerns=_concerns,
    fault="lets a maximum or minimum that is pending pass: the number that `threshold` puts in may "
    "be above those that stay, and a Fourier transform adds up.",
    right="reduces it first.",
    ends="rules of torch's own without these rows.",
    in_rows=_OPS,
    keeps=_keeps,
)
