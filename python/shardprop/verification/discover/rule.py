"""A rule that is being tried: the words of every tensor, what the words say, and its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .marks import Marks, is_whole, mark_rows, project
from .observation import Observation
from .patterns import Item, Pattern, Role, place
from .rows import ABSENT, Row

__all__ = ["Name", "Rule", "Word"]

# An item of the pattern of a slot.
Word = tuple[int, Item]

# The roles of the dims of every slot in one call; None for a slot that the call does not have.
Roles = tuple[list[Role] | None, ...]


@dataclass(frozen=True)
class Name:
    """Words with the same name: one factor for each dim they stand for.

    Attributes:
        words: Where the name is written.
        whole: It is never cut.
        reduce: The reduce op of the outputs that do not have it.
        even: It is cut into equal shards only.
    """

    words: frozenset[Word]
    whole: bool = False
    reduce: str | None = None
    even: bool = False

    def slots(self) -> frozenset[int]:
        """The slots that have it."""
        return frozenset(slot for slot, _ in self.words)


@dataclass(frozen=True)
class Rule:
    """A rule in the terms of the notation.

    Attributes:
        patterns: The words of every slot, operands first.
        names: What the words are, "1" and "_" left out.
        marks: Which operands are marked.
        written: Rows that are written out.
        operands: How many of the slots are operands.
    """

    patterns: tuple[Pattern, ...]
    names: tuple[Name, ...]
    operands: int
    marks: Marks
    written: tuple[Row, ...] = ()

    def factor_rows(self, seen: Observation, roles: Roles) -> Iterator[tuple[Name, Row]]:
        """The rows of the factors for a call, each with its name."""
        for name in self.names:
            if name.whole or all(slot >= self.operands for slot in name.slots()):
                continue
            for number in range(_dims_of(name, roles)):
                row = self._factor_row(name, number, seen, roles)
                if row is not None:
                    yield name, row

    def _factor_row(self, name: Name, number: int, seen: Observation, roles: Roles) -> Row | None:
        cut: dict[int, int] = {}
        for slot, found in enumerate(roles):
            for dim, (item, at) in enumerate(found or ()):
                if at == number and (slot, item) in name.words:
                    cut[slot] = dim
        stretched = {slot for slot, dim in cut.items() if seen.sizes(slot, dim) == {1}}
        if len(stretched) < len(cut):
            cut = {slot: dim for slot, dim in cut.items() if slot not in stretched}
        if name.even and not all(seen.even(slot, dim) for slot, dim in cut.items()):
            return None
        if not any(slot < self.operands for slot in cut):
            return None
        return tuple(self._cell(name, slot, cut, seen) for slot in range(len(roles)))

    def _cell(self, name: Name, slot: int, cut: dict[int, int], seen: Observation) -> str:
        if not seen.shapes[slot]:
            return ABSENT
        if slot in cut:
            return f"S({cut[slot]})"
        if slot >= self.operands and slot in name.slots():
            return "R"  # a dim of size 1 is no contraction
        if slot >= self.operands:
            return f"P({name.reduce or 'sum'})"
        inputs_only = any(s not in cut for s in range(self.operands, len(self.patterns)))
        added = inputs_only and name.reduce in (None, "sum") and slot in self.marks.plus
        return "P(sum)" if added and slot not in name.slots() else "R"

    def rows_of(self, name: Name, seen: Observation) -> Iterator[Row]:
        """The rows of one name for a call."""
        roles = tuple(place(pattern, seen, slot) for slot, pattern in enumerate(self.patterns))
        for other, row in self.factor_rows(seen, roles):
            if other == name:
                yield row

    def rows(self, seen: Observation, roles: Roles) -> Iterator[Row]:
        """All rows for a call."""
        for _, row in self.factor_rows(seen, roles):
            yield row
        yield from self.plain_rows(seen)

    def plain_rows(self, seen: Observation) -> Iterator[Row]:
        """The rows of the marks and those written out, for a call."""
        marked = mark_rows(self.marks, self.operands, len(self.patterns) - self.operands)
        for row in marked:
            cells = project(row, seen)
            if not is_whole(cells, self.operands):
                yield cells
        for row in self.written:
            yield project(row, seen)


def _dims_of(name: Name, roles: Roles) -> int:
    """How many dims a name stands for in a call."""
    return max(
        (
            number + 1
            for slot, found in enumerate(roles)
            for item, number in found or ()
            if (slot, item) in name.words
        ),
        default=0,
    )
