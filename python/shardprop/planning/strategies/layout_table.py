"""Layouts as numbers, shared by as many answers as a program likes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..._torch import Placement
from ...errors import ShardpropError

__all__ = ["LayoutTable"]


class LayoutTable:
    """Each layout (a placement for each mesh dim) once, under a number from 0 on.

    Two layouts are one if they are equal in Python. A `_MaskPartial` is equal only to one with the
    same mask, so that each call with such outputs may add a layout of its own.
    """

    __slots__ = ("_ids", "_layouts")

    def __init__(self) -> None:
        self._layouts: list[tuple[Placement, ...]] = []
        self._ids: dict[tuple[Placement, ...], int] = {}

    def __len__(self) -> int:
        return len(self._layouts)

    def __getitem__(self, index: int) -> tuple[Placement, ...]:
        return self._layouts[index]

    def __repr__(self) -> str:
        return f"LayoutTable({len(self)} layouts)"

    def id(self, placements: Sequence[Placement]) -> int:
        """The number of a layout, which it gets if it has none yet.

        Raises:
            ShardpropError: something in it is no placement.
        """
        layout = tuple(placements)
        known = self._ids.get(layout)
        if known is None:
            for mesh_dim, placement in enumerate(layout):
                if not isinstance(placement, Placement):
                    raise ShardpropError(
                        f"Expected a layout of placements, got {placement!r} on mesh dim "
                        f"{mesh_dim}."
                    )
            known = self._ids[layout] = len(self._layouts)
            self._layouts.append(layout)
        return known

    def ids(self, layouts: Iterable[Sequence[Placement]]) -> NDArray[np.int32]:
        """The numbers of several, one after the other.

        Raises:
            ShardpropError: as `id` does.
        """
        return np.fromiter((self.id(layout) for layout in layouts), np.int32)
