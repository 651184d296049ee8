"""``empty_like`` of a pending sum, into which a number is written."""

from __future__ import annotations

import torch

from .correction import CallCorrection
from .operands import multiplies

_OPS = (torch.ops.aten.empty_like.default,)

EMPTY_LIKE_PENDING = CallCorrection(
    name="room that takes over what is pending",
    ops=_OPS,
    concerns=multiplies,
    fault="keeps a Partial in a tensor that is yet to be written: a number that all ranks write is "
    "added up. `1 - x`, where torch's C++ code has it, does this (`cosine_embedding_loss`).",
    right="takes over the shards alone, as torch's `zeros_like` does.",
    ends="a rule of torch's own that takes over no Partial.",
    in_rows=_OPS,
)
