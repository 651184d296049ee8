"""The factors that one call shows: which dims of which tensors are cut together."""

from __future__ import annotations

from dataclasses import dataclass

from .observation import Observation
from .rows import Row, reduce_op, shard_dim

__all__ = ["Factor", "Place", "Shown", "factors_of"]

# A dim of the tensors of a slot.
Place = tuple[int, int]


@dataclass(frozen=True)
class Factor:
    """What one mesh dim may cut.

    Attributes:
        places: The dims that are cut.
        reduce: The reduce op that the outputs without a cut dim wait for, if they do.
        row: The row that shows it.
    """

    places: frozenset[Place]
    reduce: str | None
    row: Row


class Shown:
    """The factors of one observation, by dim.

    Attributes:
        seen: The observation.
        factors: Its factors.
    """

    def __init__(self, seen: Observation) -> None:
        self.seen = seen
        self.factors = factors_of(seen)
        self._of = {place: factor for factor in self.factors for place in factor.places}

    def factor(self, slot: int, dim: int) -> Factor | None:
        """The factor that cuts a dim."""
        return self._of.get((slot, dim))

    def together(self, a: Place, b: Place) -> bool | None:
        """Are two dims cut together? None where the call cannot tell.

        A dim of size 1 beside a larger one may be one that broadcasting stretches.
        """
        factor_a, factor_b = self._of.get(a), self._of.get(b)
        if factor_a is None and factor_b is None:
            return None
        if factor_a is factor_b:
            return True
        if (self.seen.sizes(*a) == {1}) != (self.seen.sizes(*b) == {1}):
            return None
        return False


def factors_of(seen: Observation) -> tuple[Factor, ...]:
    """The factors of an observation.

    Where an operand does not matter, its dims may be cut or not: the rows that cut least are taken.
    """
    found = [factor for row in sorted(seen.rows) if (factor := _factor(row, seen.operands))]
    return tuple(
        factor
        for factor in found
        if not any(
            other.places < factor.places
            and other.row[seen.operands :] == factor.row[seen.operands :]
            for other in found
        )
    )


def _factor(row: Row, operands: int) -> Factor | None:
    cut = {(slot, dim) for slot, cell in enumerate(row) if (dim := shard_dim(cell)) is not None}
    added = {op for cell in row[:operands] if (op := reduce_op(cell))}
    pending = {op for cell in row[operands:] if (op := reduce_op(cell))}
    if not any(slot < operands for slot, _ in cut) or added - {"sum"} or len(pending) > 1:
        return None
    return Factor(frozenset(cut), pending.pop() if pending else None, row)
