"""Pooling: batch and channels may be sharded, and an average of floats is linear."""

from __future__ import annotations

from typing import Any

import torch

from ..._torch import OpOverload, TensorMeta
from ..row_rule import P, R, Row, RowRule, S, noted, same_row

__all__ = ["RULES"]

aten = torch.ops.aten

# Ops by the number of dims that they pool over.
_AVERAGE = {
    1: (aten.avg_pool1d.default, aten.adaptive_avg_pool1d.default),
    2: (aten.avg_pool2d.default, aten._adaptive_avg_pool2d.default),
    3: (aten.avg_pool3d.default, aten._adaptive_avg_pool3d.default),
}
_MAXIMUM = {
    "... l! -> ... l, ... l": (
        aten.adaptive_max_pool1d.default,
        aten.max_pool1d_with_indices.default,
    ),
    "... h! w! -> ... h w, ... h w": (
        aten.adaptive_max_pool2d.default,
        aten.max_pool2d_with_indices.default,
    ),
    "... d! h! w! -> ... d h w, ... d h w": (
        aten.adaptive_max_pool3d.default,
        aten.max_pool3d_with_indices.default,
    ),
}
# Where the batch is missing, torch takes the random samples to be without it as well.
_FRACTIONAL = {2: aten.fractional_max_pool2d.default, 3: aten.fractional_max_pool3d.default}


def _is_rounded_down(operand: TensorMeta) -> bool:
    """The average of integers is no sum of averages."""
    return not (operand.dtype.is_floating_point or operand.dtype.is_complex)


def _pool(pooled_dims: int, outputs: int) -> RowRule:
    def rows(_: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Row]:
        tensors = sum(isinstance(arg, TensorMeta) for arg in (*args, *kwargs.values()))
        width = outputs + tensors
        cells: list[Any] = [R, S(0)]
        if outputs == 1 and not _is_rounded_down(args[0]):
            cells += [P("sum"), P("avg")]
        has_batch_and_channels = len(args[0].shape) >= pooled_dims + 2
        if has_batch_and_channels:
            cells.append(S(1))
        return [same_row(cell, width) for cell in cells]

    return RowRule(rows, outputs)


RULES = {
    **{op: _pool(dims, outputs=1) for dims, ops in _AVERAGE.items() for op in ops},
    **{op: RowRule(noted(text), outputs=2) for text, ops in _MAXIMUM.items() for op in ops},
    **{op: _pool(dims, outputs=2) for dims, op in _FRACTIONAL.items()},
}
