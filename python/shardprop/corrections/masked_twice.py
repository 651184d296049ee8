"""Lookups in a table that several mesh dims cut along the dim that is indexed."""

from __future__ import annotations

from typing import Any

import torch

from .._torch import DeviceMesh, DTensorSpec, MaskPartial, OpSchema, Partial
from .correction import CallCorrection
from .operands import argument, shards_dim

aten = torch.ops.aten

_OPS = (aten.embedding.default, aten.gather.default)


def _concerns(schema: OpSchema) -> bool:
    along = argument(schema, 1) if schema.op is aten.gather.default else 0
    table = argument(schema, 0)
    assert isinstance(table, DTensorSpec)
    assert isinstance(along, int)
    shape = table.mesh.shape
    placements = [p for p, size in zip(table.placements, shape, strict=True) if size > 1]
    cuts = sum(shards_dim(p, along % max(table.ndim, 1)) for p in placements)
    is_pending = len(placements) > 1 and any(isinstance(p, Partial) for p in placements)
    return cuts > 1 or is_pending


def _accepts(mesh: DeviceMesh, schema: Any, operands: Any, output: DTensorSpec) -> bool:
    """Is one mesh dim at most to mask what its ranks do not hold?"""
    return sum(isinstance(p, MaskPartial) for p in output.placements) < 2


MASKED_TWICE = CallCorrection(
    name="table cut along one dim by several mesh dims",
    ops=_OPS,
    concerns=_concerns,
    fault="has each mesh dim mask indices as if it alone cut the table: what a rank looks up is "
    "not what it holds, or lies outside, where that rank raises and the others wait.",
    right="cuts the dim that is indexed by one mesh dim at most.",
    ends="masks of torch's that know of all cuts of the table.",
    in_rows=_OPS,
    accepts=_accepts,
)
