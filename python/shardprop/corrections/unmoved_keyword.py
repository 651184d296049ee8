"""Tensors that are given by keyword, which torch's dispatcher does not move."""

from __future__ import annotations

import torch

from .._torch import DTensorSpec, OpSchema
from .correction import CallCorrection

aten = torch.ops.aten

_OPS = (
    aten._fused_adam.default,
    aten._fused_adam.tensor_lr,
    aten._fused_adam_.default,
    aten._fused_adam_.tensor_lr,
    aten._fused_adamw.default,
    aten._fused_adamw.tensor_lr,
    aten._fused_adamw_.default,
    aten._fused_adamw_.tensor_lr,
    aten.linalg_pinv.atol_rtol_tensor,
    aten.linalg_pinv.atol_rtol_tensor_out,
)


def _concerns(schema: OpSchema) -> bool:
    return any(
        isinstance(spec, DTensorSpec) and not spec.is_replicated()
        for name, spec in schema.kwargs_schema.items()
        if name != "out"
    )


UNMOVED_KEYWORD = CallCorrection(
    name="keyword tensor that is not moved",
    ops=_OPS,
    concerns=_concerns,
    fault="decides that a tensor given by keyword (the learning rate, the scale of gradients, a "
    "tolerance) is replicated, and does not move it: each rank takes the part that it holds for "
    "the whole.",
    right="is refused: keyword arguments are not moved.",
    ends="a dispatcher of torch's that moves keyword arguments.",
    in_rows=_OPS,
    refuses=True,
)
