"""Arrays that many edges share, stored once.

A graph of a model with many layers has thousands of edges and few distinct tables. The caller
has these as objects already, so the object says that a table is the same: comparing values would
cost more than the solve.
"""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["SharedArrays"]

Values = TypeVar("Values", bound=np.generic)


class SharedArrays(Generic[Values]):
    """A list of arrays with an index per array object that was given.

    An array that is given again is taken to hold what it held the first time. Objects are held
    weakly, so that a caller's array is not kept beside our copy of it; a look at the object itself
    tells it from a later one at the same address.
    """

    def __init__(self) -> None:
        self.arrays: list[npt.NDArray[Values]] = []
        self._seen: dict[int, tuple[weakref.ref[npt.NDArray[np.generic]], int]] = {}

    def find(self, given: object) -> int | None:
        """The index of what was added for this very object."""
        entry = self._seen.get(id(given))
        return entry[1] if entry is not None and entry[0]() is given else None

    def add(self, given: object, taken: npt.NDArray[Values]) -> int:
        """Store `taken`, found again by `given`; its index."""
        self.arrays.append(taken)
        if isinstance(given, np.ndarray):
            self._seen[id(given)] = (weakref.ref(given), len(self.arrays) - 1)
        return len(self.arrays) - 1

    def copy(self) -> SharedArrays[Values]:
        """Another list of the same arrays."""
        other = SharedArrays[Values]()
        other.arrays = list(self.arrays)
        other._seen = dict(self._seen)
        return other
