"""Ops that compare along one dim: sort, topk, running maxima, histograms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .._torch import OpOverload
from .follow import normal_dim
from .rows import P, R, Row, RowRule, S, same_row

__all__ = ["RULES"]

aten = torch.ops.aten

Dim = Callable[[tuple[Any, ...], dict[str, Any]], int]


def _along(dim_of: Dim) -> RowRule:
    """Values and indices from one tensor, which may be sharded on any other dim."""

    def rows(_: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Row]:
        ndim = len(args[0].shape)
        dim = normal_dim(dim_of(args, kwargs), ndim)
        return [same_row(R, 3), *(same_row(S(d), 3) for d in range(ndim) if d != dim)]

    return RowRule(rows, outputs=2)


def _histogram(_: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Row]:
    # Without bounds given, every rank would choose its own bins.
    bounded = len(args) == 4
    shardable = range(len(args[0].shape)) if bounded else range(0)
    rows: list[Row] = [same_row(R, 2)]
    return rows + [[P(), S(d)] for d in shardable]


RULES = {
    aten.topk.default: _along(lambda args, _: args[2] if len(args) > 2 else -1),
    aten.sort.default: _along(lambda args, _: args[1] if len(args) > 1 else -1),
    # torch looks at the keyword only.
    aten.sort.stable: _along(lambda _, kwargs: kwargs.get("dim", -1)),
    **dict.fromkeys((aten.cummax.default, aten.cummin.default), _along(lambda args, _: args[1])),
    aten.histc.default: RowRule(_histogram),
}
