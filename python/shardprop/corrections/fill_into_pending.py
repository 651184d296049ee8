"""``fill`` into a tensor that is pending."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .._torch import Partial
from .correction import CallCorrection
from .operands import MULTIPLYING, multiplies

if TYPE_CHECKING:
    from ..rules.kept_rows import RowCall

_OPS = (torch.ops.aten.fill.Scalar_out,)


def _keeps(row: Sequence[Any], _: RowCall) -> bool:
    return not any(isinstance(cell, Partial) and cell.reduce_op in MULTIPLYING for cell in row)


FILL_INTO_PENDING = CallCorrection(
    name="fill into what is pending",
    ops=_OPS,
    concerns=multiplies,
    fault="generates the rows of `fill(x, value, out=y)` from those of `fill_`: each rank writes "
    "the value into its part of a pending sum, and the values are added up. (Of `fill_` itself a "
    "test of torch's asserts that, and shardprop follows.)",
    right="is refused where `y` is pending: what is written into is not moved. Else reduces `x`.",
    ends="generated overloads of torch's that are not made of `fill_`.",
    in_rows=_OPS,
    keeps=_keeps,
)
