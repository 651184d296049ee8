"""Lookups in a table that several mesh dims cut along the dim that is indexed."""

from __future__ import annotations

from typing import Any

import torch

from .._torch import DeviceMesh, DTensorSpec, MaskPartial, OpSchema
from .correction import CallCorrection
from .operands import operands

aten = torch.ops.aten

_OPS = (aten.embedding.default, aten.gather.default)


def _concerns(schema: OpSchema) -> bool:
    """Several mesh dims, and something that is not whole: the cheapest way may cut the table."""
    specs = [*operands(schema)]
    is_one = sum(size > 1 for size in specs[0].mesh.shape) < 2
    return not is_one and not all(spec.is_replicated() for spec in specs)


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
