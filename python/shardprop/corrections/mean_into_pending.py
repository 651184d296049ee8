"""Means of all elements that are written into a pending average."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .._torch import DeviceMesh, DTensorSpec, OpSchema, is_strided
from ..rules.uneven_shards import refuses_partial_avg
from .correction import CallCorrection
from .operands import first

aten = torch.ops.aten

_OPS = (aten.mean.dtype_out,)


def _concerns(schema: OpSchema) -> bool:
    """Are there uneven ways to cut what is averaged?"""
    spec = first(schema)
    may_be_uneven = any(bool(size % spec.mesh.size()) for size in spec.shape)
    return may_be_uneven or any(map(is_strided, spec.placements))


def _accepts(
    mesh: DeviceMesh, schema: Any, operands: Sequence[DTensorSpec], output: DTensorSpec
) -> bool:
    averaged = operands[0]
    return not refuses_partial_avg(averaged, range(averaged.ndim))


MEAN_INTO_PENDING = CallCorrection(
    name="mean into a pending average",
    ops=_OPS,
    concerns=_concerns,
    fault="generates the rows of the overload with `out=` from those of `mean`, without the filter "
    "that keeps these off uneven shards: into a Partial(avg) each rank writes the mean of its own "
    "elements, and all ranks weigh the same.",
    right="cuts evenly, or gathers.",
    ends="generated overloads of torch's that keep the filter of what they are generated from.",
    in_rows=_OPS,
    accepts=_accepts,
)
