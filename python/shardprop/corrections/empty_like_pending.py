"""``empty_like`` of a pending sum, into which a number is written."""

from __future__ import annotations

import torch

from .._torch import OpSchema
from .correction import CallCorrection
from .operands import multiplies

_OPS = (torch.ops.aten.empty_like.default,)


def _concerns(schema: OpSchema) -> bool:
    # A program that wants room like a tensor's means its layout (`Module.to_empty`).
    return schema.kwargs_schema.get("memory_format") is not None and multiplies(schema)


EMPTY_LIKE_PENDING = CallCorrection(
    name="room that takes over what is pending",
    ops=_OPS,
    concerns=_concerns,
    fault="keeps a Partial in a tensor that torch's C++ code makes to write a number into at once, "
    "which is added up over the ranks: `1 - x` there (`cosine_embedding_loss`).",
    right="takes over the shards alone, as torch's `zeros_like` does, where `empty_like` is called "
    "with a memory format, as that code does. A program that asks for room like that of its tensor "
    "(`empty_like(x)`, `Module.to_empty`) gets its layout.",
    ends="a `1 - x` in torch's C++ code that is `rsub`, as Python's is.",
    in_rows=_OPS,
)
