"""Pooling and its backward of one image, which has no batch dim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .._torch import OpSchema
from .correction import CallCorrection
from .operands import operands, shards_dim

if TYPE_CHECKING:
    from ..rules.kept_rows import RowCall

aten = torch.ops.aten

# By the number of dims of an image: channels and what is pooled.
_NDIM = {
    aten._adaptive_avg_pool2d_backward.default: 3,
    aten._adaptive_avg_pool2d_backward.out: 3,
    aten.max_unpool2d.default: 3,
    aten.max_unpool2d.out: 3,
    aten.max_unpool3d.default: 4,
    aten.max_unpool3d.out: 4,
}
_OPS = tuple(_NDIM)


def _concerns(schema: OpSchema) -> bool:
    """Another layout than all replicated may be decided as shards of dim 1."""
    specs = [*operands(schema)]
    is_one = specs[0].ndim == _NDIM[schema.op]
    return is_one and not all(spec.is_replicated() for spec in specs)


def _keeps(row: Sequence[Any], _: RowCall) -> bool:
    """None that shards dim 1, which is not that of the channels."""
    return not any(shards_dim(cell, 1) for cell in row)


POOLING_OF_ONE_IMAGE = CallCorrection(
    name="pooling of one image",
    ops=_OPS,
    concerns=_concerns,
    fault="takes dim 1 for the channels, as in a batch of images; of a single image it is one that "
    "is pooled, and each rank pools its part as if it were the whole.",
    right="gathers that dim first.",
    ends="rows of torch's own that look at the number of dims, as those of "
    "`max_pool2d_with_indices_backward` do.",
    in_rows=_OPS,
    keeps=_keeps,
)
