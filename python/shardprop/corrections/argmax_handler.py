"""argmax and argmin, of which torch's dispatcher moves no operand."""

from __future__ import annotations

from .. import _torch
from .correction import Correction

ARGMAX_HANDLER = Correction(
    name=_torch.ARGMAX_MOVES_NOTHING,
    where="`argmax` and `argmin` of a sharded dim",
    fault="hands the op to a handler that reduces what each rank holds and gathers that, and then "
    "says of the result what was decided for an operand in another layout.",
    right="moves the operand as decided, where the output is decided to be placed otherwise than "
    "the handler leaves it.",
    ends="a handler of torch's that says how its result is placed.",
)
