"""Which words of different tensors are one name: what all calls together allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from .factors import Shown
from .patterns import Item, Pattern, Role, usable_patterns
from .rule import Name, Word

__all__ = ["Fit", "Linker", "fits_of"]

_MOST_PATTERNS = 16  # of one slot, the shortest first


@dataclass(frozen=True, eq=False)
class Fit:
    """A pattern that fits a slot in every call.

    Attributes:
        slot: The slot.
        pattern: The pattern.
        roles: For every observation the roles of the slot's dims.
    """

    slot: int
    pattern: Pattern
    roles: Sequence[list[Role] | None]

    @cached_property
    def items(self) -> frozenset[Item]:
        """The words that name dims."""
        return frozenset(i for i in self.pattern.items if i.kind in ("name", "rest"))


def fits_of(slot: int, shown: Sequence[Shown], *, strict: bool) -> list[Fit]:
    """The patterns of a slot; if `strict`, only those whose words are cut everywhere or nowhere."""
    found = [
        Fit(slot, pattern, roles)
        for pattern, roles in usable_patterns(slot, [one.seen for one in shown])
    ]
    if strict:
        found = [fit for fit in found if _is_consistent(fit, shown)]
    return found[:_MOST_PATTERNS]


def _is_consistent(fit: Fit, shown: Sequence[Shown]) -> bool:
    cut, cut_unevenly, whole, whole_evenly = set(), set(), set(), set()
    for one, roles in zip(shown, fit.roles, strict=True):
        for dim, (item, _) in enumerate(roles or ()):
            even = one.seen.even(fit.slot, dim)
            if one.factor(fit.slot, dim) is not None:
                (cut if even else cut_unevenly).add(item)
            elif one.can_tell(fit.slot, dim) and one.seen.sizes(fit.slot, dim) != {1}:
                (whole_evenly if even else whole).add(item)
    words = {item for item in cut | cut_unevenly if item.kind in ("one", "whole")}
    mixed = (cut | cut_unevenly) & whole_evenly or cut_unevenly & whole
    return not (words or mixed)


class Linker:
    """Finds which words are cut together, by what the calls show."""

    def __init__(self, shown: Sequence[Shown]) -> None:
        self._shown = shown
        self._known: dict[tuple[int, int], bool] = {}

    def compatible(self, fits: Sequence[Sequence[Fit]]) -> Iterator[tuple[Fit, ...]]:
        """One pattern for every slot, such that any two are cut alike in every call."""

        def extend(chosen: tuple[Fit, ...]) -> Iterator[tuple[Fit, ...]]:
            if len(chosen) == len(fits):
                yield chosen
                return
            for fit in fits[len(chosen)]:
                if all(self._agree(other, fit) for other in chosen):
                    yield from extend((*chosen, fit))

        return extend(())

    def _agree(self, one: Fit, other: Fit) -> bool:
        key = (id(one), id(other))
        if key not in self._known:
            self._known[key] = all(
                self.linked(one, a, other, b) != "contradicted"
                for a in one.items
                for b in other.items
            )
        return self._known[key]

    def linked(self, one: Fit, a: Item, other: Fit, b: Item) -> str:
        """Are two words one name: ``"yes"``, ``"no"``, ``"open"`` or ``"contradicted"``?"""
        together = apart = crossed = False
        for shown, roles, others in zip(self._shown, one.roles, other.roles, strict=True):
            for dim, (item, number) in enumerate(roles or ()):
                if item != a:
                    continue
                for at, (beside, count) in enumerate(others or ()):
                    if beside != b:
                        continue
                    found = shown.together((one.slot, dim), (other.slot, at))
                    together |= found is True and number == count
                    apart |= found is False and number == count
                    crossed |= found is True and number != count
        if crossed or (together and apart):
            return "contradicted"
        rests = (a.kind == "rest") + (b.kind == "rest")
        if (rests == 2 and apart) or (rests == 1 and together):
            return "contradicted"
        if rests:
            return "yes" if rests == 2 else "no"
        return "yes" if together else "no" if apart else "open"

    def names(self, fits: Sequence[Fit]) -> tuple[Name, ...] | None:
        """The names of all words; None if a tensor would have one twice."""
        words = [(fit.slot, item) for fit in fits for item in fit.pattern.items]
        group: dict[Word, set[Word]] = {
            word: {word} for word in words if word[1].kind in ("name", "rest")
        }

        def join(one: Word, other: Word) -> None:
            if group[one] is not group[other]:
                group[one] |= group[other]
                for word in group[other]:
                    group[word] = group[one]

        pairs = [
            (one, a, other, b)
            for at, one in enumerate(fits)
            for other in fits[at + 1 :]
            for a in one.pattern.items
            for b in other.pattern.items
            if a.kind in ("name", "rest") and b.kind in ("name", "rest")
        ]
        for one, a, other, b in pairs:
            if self.linked(one, a, other, b) == "yes":
                join((one.slot, a), (other.slot, b))
        for one, a, other, b in pairs:
            # Names that are never cut may be one if they mean the same dims.
            open_ = self.linked(one, a, other, b) == "open"
            both = (group[one.slot, a], group[other.slot, b])
            if open_ and a.place == b.place and both[0].isdisjoint(both[1]):
                if not any(self._is_cut(fits, word) for word in both[0] | both[1]):
                    if a.place or self._same_sizes(one, a, other, b):
                        join((one.slot, a), (other.slot, b))
        distinct = {id(words): frozenset(words) for words in group.values()}
        if any(len({slot for slot, _ in words}) < len(words) for words in distinct.values()):
            return None
        return tuple(self._name(words, fits) for words in distinct.values())

    def _places(self, fits: Sequence[Fit], word: Word) -> Iterator[tuple[Shown, int, int]]:
        slot, item = word
        for shown, roles in zip(self._shown, fits[slot].roles, strict=True):
            for dim, (found, _) in enumerate(roles or ()):
                if found == item:
                    yield shown, slot, dim

    def _is_cut(self, fits: Sequence[Fit], word: Word) -> bool:
        return any(shown.factor(slot, dim) for shown, slot, dim in self._places(fits, word))

    def _same_sizes(self, one: Fit, a: Item, other: Fit, b: Item) -> bool:
        def sizes(fit: Fit, item: Item) -> list[list[set[int]]]:
            return [
                [shown.seen.sizes(fit.slot, dim) for dim, (i, _) in enumerate(roles or ()) if i == item]
                for shown, roles in zip(self._shown, fit.roles, strict=True)
            ]

        return sizes(one, a) == sizes(other, b)

    def _name(self, words: frozenset[Word], fits: Sequence[Fit]) -> Name:
        """What the calls show of a name."""
        cut = uneven_refused = False
        reduces: set[str] = set()
        for word in words:
            for shown, slot, dim in self._places(fits, word):
                factor = shown.factor(slot, dim)
                if factor is not None:
                    cut = True
                    reduces |= {factor.reduce} - {None}
                elif not shown.seen.even(slot, dim) and shown.can_tell(slot, dim):
                    uneven_refused = True
        if not cut or len(reduces) > 1:
            return Name(words, whole=True)
        return Name(words, reduce=next(iter(reduces), None), even=uneven_refused)
