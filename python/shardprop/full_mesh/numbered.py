"""Strategies as numbers of layouts, as each kind of rule finds them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .given import Layout

__all__ = ["Numbered"]


class Numbered(NamedTuple):
    """Strategies of one op.

    Attributes:
        table: int32 [strategies, outputs and operands]: numbers of layouts, -1 for an absent
            output.
        outputs: How many columns are outputs.
        layouts: The layouts by these numbers.
    """

    table: NDArray[np.int32]
    outputs: int
    layouts: list[Layout]
