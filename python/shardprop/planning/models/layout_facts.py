"""What strategies are sorted by, for each layout of a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..._torch import Partial, Placement, Replicate, is_partial, is_strided
from ..strategies import LayoutTable

__all__ = ["LayoutFacts"]


class LayoutFacts:
    """Bits by the number of a layout; index -1, an absent tensor, has none.

    Args:
        layouts: The table; it may grow.
    """

    def __init__(self, layouts: LayoutTable) -> None:
        self._layouts = layouts
        self._strided: list[int] = []
        self._pending: list[int] = []
        self._settled: list[int] = []
        self._kinds: dict[Placement, int] = {}

    @property
    def strided(self) -> NDArray[np.int64]:
        """The mesh dims with strided shards, a bit for each."""
        self._catch_up()
        return np.array([*self._strided, 0])

    @property
    def pending(self) -> NDArray[np.int64]:
        """The kinds of pending partials, a bit for each kind."""
        self._catch_up()
        return np.array([*self._pending, 0])

    @property
    def settled(self) -> NDArray[np.int32]:
        """The layout that an operand is brought to where an op wants it in this one.

        A masked partial of an operand (the token ids of an embedding whose vocabulary is sharded)
        is made by torch within the op, from what is replicated.
        """
        self._catch_up()
        return np.array(self._settled, np.int32)

    def _catch_up(self) -> None:
        while len(self._strided) < len(self._layouts):
            number = len(self._strided)
            layout = self._layouts[number]
            self._strided.append(sum(1 << m for m, p in enumerate(layout) if is_strided(p)))
            kinds = {self._kind(placement) for placement in layout if is_partial(placement)}
            self._pending.append(sum(1 << kind for kind in kinds))
            settled = tuple(Replicate() if _is_masked(p) else p for p in layout)
            self._settled.append(self._layouts.id(settled) if settled != layout else number)

    def _kind(self, placement: Placement) -> int:
        return self._kinds.setdefault(placement, len(self._kinds))


def _is_masked(placement: Placement) -> bool:
    return is_partial(placement) and type(placement) is not Partial
