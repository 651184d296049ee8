"""A rule as text, and how long the text is."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from .patterns import Item
from .rows import show
from .rule import Name, Rule
from .slots import Signature

__all__ = ["length", "render", "tokens", "words"]

_TOKEN = re.compile(r"\.\.\.|->|[a-z][a-z0-9_]*|[@#:]\w+|[A-Z]\([^)]*\)|\S")

# Names by what a factor is, as the literature writes them.
_BATCH = "bcd"
_CONTRACTED = "klji"
_OTHER = "mnpqrstuv"
_WHOLE = "wxyz"
_PLACED = "nmpqrstuv"


def tokens(text: str) -> int:
    """How many words and signs a rule has."""
    return len(_TOKEN.findall(text))


def length(text: str) -> tuple[int, int, bool, str]:
    """What rules are ordered by: words, then what claims more than was seen, then text.

    ``...`` speaks of numbers of dims that a name does not, and ``#`` takes an int for a number of
    dims that is mostly the number of one. Of one operand ``+`` and ``*`` say the same; ``+`` it is.
    """
    return tokens(text), text.count("...") + text.count("#"), text.count("*") == 1, text


def render(rule: Rule, signature: Signature) -> str:
    """A rule in the notation."""
    writer = _Writer(rule)
    terms = []
    for slot, kind in enumerate(signature.slots):
        term = rule.marks.of(slot) + " ".join(writer.words(slot))
        terms.append(f"[{term}]" if kind.is_list else term)
    operands = len(signature.operands)
    text = f"{', '.join(terms[:operands])} -> {', '.join(terms[operands:])}".strip()
    written = (show(row, operands) for row in rule.written)
    return "; ".join([text, *written])


def words(rule: Rule, signature: Signature) -> dict[Name, str]:
    """How each name is written at its first mention, without marks and asks."""
    writer = _Writer(rule)
    for slot in range(len(signature.slots)):
        list(writer.words(slot))
    return writer.written


class _Writer:
    """Gives names to the words, and writes marks and asks at the first mention."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._names = {word: name for name in rule.names for word in name.words}
        self._letters: dict[Name, str] = {}
        self._free: dict[str, Iterator[str]] = {
            kind: _letters(kind) for kind in (_BATCH, _CONTRACTED, _OTHER, _WHOLE, _PLACED)
        }
        self.written: dict[Name, str] = {}

    def words(self, slot: int) -> Iterator[str]:
        """The words of a slot."""
        for item in self._rule.patterns[slot].items:
            if item.kind == "rest":
                yield "..." + self._said(slot, item, "...")
            elif item.kind == "one":
                yield "1" + item.place
            elif item.kind == "whole":
                yield "_"
            else:
                word = self._letter(self._names[slot, item]) + item.place
                yield word + self._said(slot, item, word)

    def _said(self, slot: int, item: Item, word: str) -> str:
        """The marks and asks of a name, at its first mention."""
        name = self._names[slot, item]
        if name in self.written:
            return ""
        self.written[name] = word
        left = any(at < self._rule.operands for at in name.slots())
        said = "!" if name.whole and left else ""
        if not name.whole and name.reduce not in (None, "sum"):
            said += f":{name.reduce}"
        # An average asks for equal shards by itself.
        if name.even and not name.whole and name.reduce != "avg":
            said += "{even}"
        return said

    def _letter(self, name: Name) -> str:
        if name not in self._letters:
            self._letters[name] = next(self._free[self._kind(name)])
        return self._letters[name]

    def _kind(self, name: Name) -> str:
        slots = name.slots()
        named = [slot for slot, pattern in enumerate(self._rule.patterns) if pattern.items]
        if any(item.place for _, item in name.words):
            return _PLACED
        if name.whole:
            return _WHOLE
        if not any(slot >= self._rule.operands for slot in slots):
            return _CONTRACTED
        return _BATCH if len(named) > 2 and set(named) <= slots else _OTHER


def _letters(kind: str) -> Iterator[str]:
    yield from kind
    for number in itertools.count(2):
        for letter in kind:
            yield f"{letter}{number}"
