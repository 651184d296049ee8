"""Matrix products that torch 2.13 has no single-dim rule for: dot and grouped mm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ... import _core, _torch
from ..._torch import DTensorSpec, OpOverload
from ..row_rule import P, R, Row, RowRule, S, noted

__all__ = ["RULES"]

aten = torch.ops.aten

# Rows of output, mat1 and mat2 by their numbers of dims.
_GROUPED: dict[tuple[int, int], list[list[Any]]] = {
    (2, 3): [[S(1), R, S(2)], [P(), S(1), S(1)]],
    (3, 2): [[P(), S(2), S(0)], [S(0), S(1), R]],
    (2, 2): [[S(2), R, S(1)], [S(1), S(0), R]],
    (3, 3): [[S(2), R, S(2)], [S(1), S(1), R], [P(), S(2), S(1)], [S(0), S(0), S(0)]],
}


def _grouped(_: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Row]:
    if len(args) > 3 and args[3] is not None:
        raise _core.Unsupported("grouped mm with a bias, which torch refuses")
    offsets = [R] if len(args) > 2 and args[2] is not None else []
    dims = (len(args[0].shape), len(args[1].shape))
    rows: list[list[Any]] = [[R, R, R], [P(), P(), R], [P(), R, P()], *_GROUPED.get(dims, [])]
    return [[*row, *offsets] for row in rows]


def _aligned(spec: DTensorSpec) -> bool:
    """What the kernel asks of a local matrix: one of its last two dims contiguous, and the other's
    stride a multiple of 16 bytes."""
    shape, stride, itemsize = _torch.local_matrix(spec)
    multiple = 16 // itemsize
    (rows, columns), (row_stride, column_stride) = shape[-2:], stride[-2:]
    if row_stride == 1 and column_stride >= max(1, rows):
        return bool(column_stride % multiple == 0)
    if column_stride == 1 and row_stride >= max(1, columns):
        return bool(row_stride % multiple == 0)
    return False


def _both_aligned(_: Any, __: Any, inputs: Sequence[DTensorSpec], ___: Any) -> bool:
    return _aligned(inputs[0]) and _aligned(inputs[1])


RULES = {
    # The row is written out for the sake of symbolic sizes: nothing is compared.
    aten.dot.default: RowRule(
        noted("_, _ -> _; S(0), S(0) -> P(sum)"), allow_unbacked_sharding=True
    ),
    aten._grouped_mm.default: RowRule(_grouped, accepts=_both_aligned),
}
