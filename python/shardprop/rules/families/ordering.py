"""Ops that compare along one dim: sort, topk, running maxima, histograms."""

from __future__ import annotations

from typing import Any

import torch

from ..._torch import OpOverload
from ..row_rule import P, R, Row, RowRule, S, noted, same_row

__all__ = ["RULES"]

aten = torch.ops.aten

# Values and indices from one tensor, which may be sharded on any other dim.
_ALONG_DIM = RowRule(noted("... k@dim! -> ... k@dim, ... k@dim"), outputs=2)


def _histogram(_: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Row]:
    # Without bounds given, every rank would choose its own bins.
    bounded = len(args) == 4
    shardable = range(len(args[0].shape)) if bounded else range(0)
    rows: list[Row] = [same_row(R, 2)]
    return rows + [[P(), S(d)] for d in shardable]


RULES = {
    **dict.fromkeys(
        (
            aten.cummax.default,
            aten.cummin.default,
            aten.sort.default,
            aten.sort.stable,
            aten.topk.default,
        ),
        _ALONG_DIM,
    ),
    aten.histc.default: RowRule(_histogram),
}
