"""List ops inside a decomposition, whose operands would have to move."""

from __future__ import annotations

from .correction import Correction

LIST_MOVED_INSIDE = Correction(
    name="list that would move inside a decomposition",
    where="ops decided by a decomposition that calls a `_foreach_` op",
    fault="takes a layout of the operands for one that holds for the whole decomposition, though "
    "inside it what is in a list would have to move: it looks for moves among the operands that "
    "stand by themselves.",
    right="leaves that layout out.",
    ends="a comparison of torch's that looks into lists.",
)
