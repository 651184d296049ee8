"""Ops with ``out=`` that are given sizes, which torch's dispatcher makes local without it alone."""

from __future__ import annotations

import torch

from .._torch import DTensorSpec, OpOverload, OpSchema
from .correction import CallCorrection
from .operands import operands

aten = torch.ops.aten

_RESIZED = (
    "linear1d",
    "bilinear2d",
    "bicubic2d",
    "trilinear3d",
    "nearest1d",
    "nearest2d",
    "nearest3d",
    "_nearest_exact1d",
    "_nearest_exact2d",
    "_nearest_exact3d",
    "_bilinear2d_aa",
    "_bicubic2d_aa",
    "_lanczos2d_aa",
)


def _backward(kind: str) -> OpOverload:
    private = "_" * kind.startswith("_")
    found: OpOverload = getattr(aten, f"{private}upsample_{kind.lstrip('_')}_backward").grad_input
    return found


def _concerns(schema: OpSchema) -> bool:
    """Is something cut that the sizes speak of?"""
    return any(
        spec.mesh.size(mesh_dim) > 1
        for spec in (*schema.kwargs_schema.values(), next(operands(schema)))
        if isinstance(spec, DTensorSpec)
        for mesh_dim, placement in enumerate(spec.placements)
        if not placement.is_replicate() and not placement.is_partial()
    )


_OPS = (
    aten.native_group_norm.out,
    aten.select_backward.out,
    aten.slice_backward.out,
    *map(_backward, _RESIZED),
)

SIZES_OF_THE_WHOLE = CallCorrection(
    name="sizes of the whole",
    ops=_OPS,
    concerns=_concerns,
    fault="makes sizes among the arguments local where there is no `out=`, and not where there is: "
    "ranks raise whose part has other sizes, while one whose part is one element, or the whole, "
    "goes on and waits for them in the next collective.",
    right="is refused on all ranks.",
    ends="`out=` overloads in torch's tables of arguments that it makes local.",
    in_rows=_OPS,
    refuses=True,
)
