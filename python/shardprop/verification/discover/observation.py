"""What was seen of one call on so many ranks: shapes, arguments, and the rows that held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .rows import Row, implies, shard_dim, show

__all__ = ["Observation"]

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Observation:
    """One call on a 1-D mesh.

    Attributes:
        call: The call's number.
        text: The call, shapes for tensors.
        ranks: Size of the mesh.
        operands: How many slots are operands; the others are outputs.
        shapes: For every slot the shapes of its tensors; more than one only for a list, none where
            an optional tensor is not given. All of a slot have equally many dims.
        arguments: The arguments that are no tensors, by name, with their defaults.
        rows: The essential rows that held.
        judge: Runs the call for a row that is not among `rows`: those may say nothing and still
            hold, as a sum does for one element.
        refuted: Rows that fail on other meshes, or strided, whatever they do on this one.
    """

    call: int
    text: str
    ranks: int
    operands: int
    shapes: tuple[tuple[Shape, ...], ...]
    arguments: dict[str, Any]
    rows: frozenset[Row]
    judge: Callable[[Row], bool | None] = field(default=lambda row: False, compare=False)
    refuted: frozenset[Row] = frozenset()

    @property
    def lengths(self) -> list[int]:
        """How many tensors every slot has."""
        return list(map(len, self.shapes))

    def ndim(self, slot: int) -> int | None:
        """Dims of the tensors of a slot; None where there are none."""
        return len(self.shapes[slot][0]) if self.shapes[slot] else None

    def sizes(self, slot: int, dim: int) -> set[int]:
        """The sizes that a dim has in the tensors of a slot."""
        return {shape[dim] for shape in self.shapes[slot]}

    def testable(self, slot: int, dim: int) -> bool:
        """Can the dim be cut with something left for every rank?"""
        ranks = self.ranks
        return all(size > (ranks - 1) * -(-size // ranks) for size in self.sizes(slot, dim))

    def even(self, slot: int, dim: int) -> bool:
        """Does the dim fall into equal shards?"""
        return all(size % self.ranks == 0 for size in self.sizes(slot, dim))

    def holds(self, row: Row) -> bool | None:
        """Did the row hold? None where the call cannot tell."""
        if row in self.refuted:
            return False
        if row in self.rows or any(implies(held, row, self.operands) for held in self.rows):
            return True
        if any(dim >= (self.ndim(slot) or 0) for slot, dim in _cut(row)):
            return False  # a dim that the tensor does not have
        return None if self.leaves_empty(row) else self.judge(row)

    def leaves_empty(self, row: Row) -> bool:
        """Has some rank no elements of a tensor that the row cuts?"""
        return not all(self.testable(slot, dim) for slot, dim in _cut(row))

    def show(self, row: Row) -> str:
        """A row as the notation writes it."""
        return show(row, self.operands)


def _cut(row: Row) -> list[tuple[int, int]]:
    """The dims that a row cuts, each with its slot."""
    dims = ((slot, shard_dim(cell)) for slot, cell in enumerate(row))
    return [(slot, dim) for slot, dim in dims if dim is not None]
