"""Which labels of each node its costs and its own constraints leave."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .constraints import Allow, Forbid
from .inputs import Floats

__all__ = ["Flags", "Masks", "allowed_by"]

Flags = npt.NDArray[np.bool_]


def allowed_by(constraint: Allow | Forbid, count: int) -> Flags:
    """[count] whether the constraint allows the label."""
    chosen = np.zeros(count, dtype=np.bool_)
    chosen[constraint.labels] = True
    return chosen if isinstance(constraint, Allow) else ~chosen


class Masks:
    """A mask per node, never without a label."""

    def __init__(self) -> None:
        self.left: list[Flags] = []

    def add(self, costs: Floats) -> None:
        self.left.append(np.isfinite(costs))

    def leaves_any(self, constraint: Allow | Forbid) -> bool:
        left = self.left[constraint.node]
        return bool((left & allowed_by(constraint, len(left))).any())

    def apply(self, constraint: Allow | Forbid) -> None:
        """Masks are replaced, never written to: copies share them."""
        left = self.left[constraint.node]
        self.left[constraint.node] = left & allowed_by(constraint, len(left))

    def copy(self) -> Masks:
        other = Masks()
        other.left = list(self.left)
        return other
