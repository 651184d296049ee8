"""Which words of different tensors are one name: what all calls together allow."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from .factors import Place, Shown
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
    def items(self) -> tuple[Item, ...]:
        """The words that name dims."""
        return tuple(item for item in self.pattern.items if item.kind in ("name", "rest"))


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
    cut: set[Item] = set()
    cut_unevenly: set[Item] = set()
    whole: set[Item] = set()
    whole_evenly: set[Item] = set()
    for one, roles in zip(shown, fit.roles, strict=True):
        for dim, (item, _) in enumerate(roles or ()):
            even = one.seen.even(fit.slot, dim)
            if one.factor(fit.slot, dim) is not None:
                (cut if even else cut_unevenly).add(item)
            elif one.seen.testable(fit.slot, dim) and one.seen.sizes(fit.slot, dim) != {1}:
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
        together = apart = crossed = resized = False
        for shown, mine, its, same_number in self._pairs(one, a, other, b):
            found = shown.together(mine, its)
            together |= found is True and same_number
            apart |= found is False and same_number
            crossed |= found is True and not same_number
            resized |= found is True and shown.seen.sizes(*mine) != shown.seen.sizes(*its)
        if crossed or (together and apart):
            return "contradicted"
        rests = (a.kind == "rest") + (b.kind == "rest")
        if (rests == 2 and (apart or resized)) or (rests == 1 and together):
            return "contradicted"
        if together and bool(a.place) != bool(b.place):
            return "contradicted"  # a name lies where an argument says everywhere, or nowhere
        if rests:
            return "yes" if rests == 2 else "no"
        # A name is one size: what becomes longer or shorter has two.
        return "no" if apart or resized else "yes" if together else "open"

    def _pairs(
        self, one: Fit, a: Item, other: Fit, b: Item
    ) -> Iterator[tuple[Shown, Place, Place, bool]]:
        """The dims of two words in each call, and whether they are the same dims of a name."""
        for shown, roles, others in zip(self._shown, one.roles, other.roles, strict=True):
            mine = [(dim, number) for dim, (item, number) in enumerate(roles or ()) if item == a]
            its = [(dim, number) for dim, (item, number) in enumerate(others or ()) if item == b]
            for (dim, number), (at, count) in itertools.product(mine, its):
                yield shown, (one.slot, dim), (other.slot, at), number == count

    def names(self, fits: Sequence[Fit]) -> tuple[Name, ...] | None:
        """The names of all words; None if a tensor would have one twice."""
        groups = _Groups((fit.slot, item) for fit in fits for item in fit.items)
        open_pairs = []
        for one, other in itertools.combinations(fits, 2):
            for a, b in itertools.product(one.items, other.items):
                linked = self.linked(one, a, other, b)
                if linked == "yes":
                    groups.join((one.slot, a), (other.slot, b))
                elif linked == "open" and a.place == b.place:
                    open_pairs.append((one, a, other, b))
        for one, a, other, b in open_pairs:
            # Names that are never cut may be one if they mean the same dims.
            words = groups.of((one.slot, a)) | groups.of((other.slot, b))
            same = bool(a.place) or self._same_sizes(one, a, other, b)
            if same and not any(self._is_cut(fits, word) for word in words):
                groups.join((one.slot, a), (other.slot, b))
        if any(len({slot for slot, _ in words}) < len(words) for words in groups.all()):
            return None
        return tuple(self._name(words, fits) for words in groups.all())

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
                [seen.sizes(fit.slot, dim) for dim, (i, _) in enumerate(roles or ()) if i == item]
                for seen, roles in zip(observations, fit.roles, strict=True)
            ]

        observations = [shown.seen for shown in self._shown]
        return sizes(one, a) == sizes(other, b)

    def _name(self, words: frozenset[Word], fits: Sequence[Fit]) -> Name:
        """What the calls show of a name."""
        factors = [
            factor
            for word in words
            for shown, slot, dim in self._places(fits, word)
            if (factor := shown.factor(slot, dim)) is not None
        ]
        reduces = {factor.reduce for factor in factors} - {None}
        if not factors or len(reduces) > 1:
            return Name(words, whole=True)
        return Name(words, reduce=next(iter(reduces), None))


class _Groups:
    """Words that are one name."""

    def __init__(self, words: Iterable[Word]) -> None:
        self._of = {word: frozenset({word}) for word in words}

    def of(self, word: Word) -> frozenset[Word]:
        """The words that are one name with this."""
        return self._of[word]

    def join(self, one: Word, other: Word) -> None:
        """Make two words one name."""
        both = self._of[one] | self._of[other]
        self._of.update(dict.fromkeys(both, both))

    def all(self) -> list[frozenset[Word]]:
        """All names, in the order of their first words."""
        return list(dict.fromkeys(self._of.values()))
