"""Integers and flags that torch divides where they become a pending sum."""

from __future__ import annotations

from .. import _torch
from .correction import Correction

INTEGERS_MADE_PENDING = Correction(
    name=_torch.INTEGERS_MADE_PENDING,
    where="redistributions of integers and flags from Replicate to Partial(sum), as within "
    "`x + n` where `x` is a pending sum",
    fault="divides by the number of ranks, which makes floats of them: those of 32 bits, whose "
    "digits do not suffice for large numbers, nor for the results of doubles.",
    right="leaves them whole on the first rank, and zeros on the others.",
    ends="a step of torch's that does so.",
)
