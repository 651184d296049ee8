"""Strategies as numbers of layouts, as each kind of rule finds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...model.placements import Placements
from .layout_table import LayoutTable

__all__ = ["Numbered", "numbered"]


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
    layouts: list[Placements]


def numbered(rows: Iterable[Sequence[Placements | None]], outputs: int) -> Numbered:
    """Strategies by the layouts of outputs and operands, each strategy once."""
    layouts = LayoutTable()
    found = dict.fromkeys(
        tuple(-1 if layout is None else layouts.id(layout) for layout in row) for row in rows
    )
    table = np.array([*found], np.int32).reshape(len(found), -1)
    return Numbered(table, outputs, [layouts[i] for i in range(len(layouts))])
