"""Ops whose names end as those of in-place ones do."""

from __future__ import annotations

from .correction import Correction

NAMED_AS_IN_PLACE = Correction(
    name="op named as an in-place one",
    where='`x << y` and `x >> y`; in inference mode "and", "or" and "xor" of bits, too',
    fault="takes `__lshift__` and its like, whose names end in an underscore, for in-place ops: it "
    "returns the operand itself.",
    right="runs the op that is meant (`bitwise_left_shift`).",
    ends="a dispatcher of torch's that asks the op's schema what it writes into.",
)
