"""A squeeze in place, which changes the shape of a tensor that stays where it is."""

from __future__ import annotations

from .. import _torch
from .correction import Correction

SQUEEZED_IN_PLACE = Correction(
    name=_torch.SQUEEZED_IN_PLACE,
    where="`squeeze_`, and `quantile` and `nanquantile`, whose code calls it",
    fault="squeezes what each rank holds, and gives the tensor its new shape only where a shard "
    "has another dim then: else it has a dim more than its parts.",
    right="gives it the new shape.",
    ends="a dispatcher of torch's that takes over the shape that was decided.",
)
