"""``nansum`` of a pending sum."""

from __future__ import annotations

import torch

from .._torch import OpSchema
from .correction import CallCorrection
from .operands import is_pending


def _concerns(schema: OpSchema) -> bool:
    return is_pending(schema, "sum")


NANSUM_OF_PENDING = CallCorrection(
    name="nansum of a pending sum",
    ops=(torch.ops.aten.nansum.default,),
    concerns=_concerns,
    fault="lets a Partial(sum) through, though the whole is nan where a part is, and left out.",
    right="reduces it first.",
    ends="rows of torch's own that take no Partial(sum); those of 2.15 do.",
    in_rows=(torch.ops.aten.nansum.default,),
)
