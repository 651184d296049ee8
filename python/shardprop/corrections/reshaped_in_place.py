"""A squeeze or a transpose in place, which changes the shape of a tensor that stays where it is."""

from __future__ import annotations

from .. import _torch
from .correction import Correction

RESHAPED_IN_PLACE = Correction(
    name=_torch.RESHAPED_IN_PLACE,
    where="`squeeze_`, and `quantile` and `nanquantile`, whose code calls it; `t_` on 2.15",
    fault="reshapes what each rank holds, and gives the tensor its new shape only where a shard "
    "has another dim then: else it has the shape that it had, and its parts another.",
    right="gives it the new shape.",
    ends="a dispatcher of torch's that takes over the shape that was decided.",
)
