"""Ops that address one dim by an index tensor: gather and scatter."""

from __future__ import annotations

from typing import Any

import torch

from ... import _torch
from ..._torch import OpOverload, TensorMeta
from ..follow_rule import normal_dim
from ..row_rule import R, Row, RowRule, S, same_row

__all__ = ["RULES"]

aten = torch.ops.aten


def _gather(_: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Row]:
    """The output has the shape of the index."""
    shape, index_shape = args[0].shape, args[2].shape
    dim = normal_dim(args[1], len(shape))
    rows: list[Row] = [same_row(R, 3)]
    if dim < len(index_shape) and index_shape[dim] == 1:
        # Each rank finds what lies in its own shard and masks the rest.
        masked = _torch.mask_partial(shape, dim)
        rows.append([masked, S(dim), masked])
    rows.append([S(dim), R, S(dim)])
    if len(shape) == len(index_shape):
        # torch does not compare the sizes: where they differ, the shards are of other elements.
        same = (d for d in range(len(shape)) if d != dim and shape[d] == index_shape[d])
        rows += [same_row(S(d), 3) for d in same]
    return rows


def _scatter(_: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Row]:
    """Any other dim may be sharded on which all tensors have the same size."""
    shape, index_shape = args[0].shape, args[2].shape
    dim = normal_dim(args[1], len(shape))
    tensors = [arg for arg in args if isinstance(arg, TensorMeta)]
    source = tensors[2].shape if len(tensors) > 2 else None
    width = 1 + min(len(tensors), 3)
    rows: list[Row] = [same_row(R, width)]
    if len(shape) != len(index_shape):
        return rows
    for d in range(len(shape)):
        if d == dim or shape[d] != index_shape[d]:
            continue
        if source is None or source[d] == index_shape[d]:
            rows.append(same_row(S(d), width))
    return rows


def _scatter_add(_: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Row]:
    shape, index_shape, source = args[0].shape, args[2].shape, args[3].shape
    dim = normal_dim(args[1], len(shape))
    rows: list[Row] = [same_row(R, 4)]
    if len(shape) == len(index_shape):
        same = (d for d in range(len(shape)) if d != dim and shape[d] == index_shape[d])
        # torch does not look at the source, which may be larger than the index.
        rows += [same_row(S(d), 4) for d in same if source[d] == index_shape[d]]
    return rows


RULES = {
    aten.gather.default: RowRule(_gather),
    **dict.fromkeys(
        (
            aten.scatter.src,
            aten.scatter.value,
            aten.scatter_.src,
            aten.scatter_.value,
        ),
        RowRule(_scatter),
    ),
    aten.scatter_add.default: RowRule(_scatter_add),
}
