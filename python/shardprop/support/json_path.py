"""A JSON document that is read with the path to every fault in it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import ShardpropError

__all__ = ["Spot", "parse"]


class _Missing:
    """Stands where the document has nothing."""


class _Object(dict[str, object]):
    """A JSON object that knows which keys were written more than once."""

    repeated: tuple[str, ...] = ()


def _object(pairs: list[tuple[str, object]]) -> _Object:
    values = _Object(pairs)
    counts = Counter(key for key, _ in pairs)
    values.repeated = tuple(key for key, count in counts.items() if count > 1)
    return values


def parse(text: str, document: str) -> Spot:
    """The root of a JSON document.

    Args:
        text: Of the document.
        document: What messages call it, such as the path of the file.

    Raises:
        ShardpropError: it is not JSON.
    """
    try:
        return Spot(document, "", json.loads(text, object_pairs_hook=_object))
    except json.JSONDecodeError as error:
        raise ShardpropError(
            f"{document}: Expected JSON, got this at line {error.lineno}, column {error.colno}: "
            f"{error.msg}."
        ) from None
    except (RecursionError, ValueError) as error:  # nested too deep, a number of too many digits
        raise ShardpropError(f"{document}: Expected JSON that can be read, got: {error}.") from None


@dataclass(frozen=True)
class Spot:
    """A value in a document.

    Attributes:
        document: What messages call the document.
        path: From the root to here, such as ``groups[1].mesh_dims``.
        value: What is here.
    """

    document: str
    path: str
    value: object

    def fault(self, expected: str, got: str | None = None) -> ShardpropError:
        """The error that says what was expected here."""
        where = f"{self.document}: {self.path}" if self.path else self.document
        return ShardpropError(f"{where}: Expected {expected}, got {got or self._shown()}.")

    def _shown(self) -> str:
        if self.is_missing():
            return "nothing"
        if isinstance(self.value, Mapping):
            return "an object"
        if isinstance(self.value, Sequence) and not isinstance(self.value, str):
            return "a list"
        # As in a file, NaN and Infinity too; what no file can hold came from Python.
        shown = json.dumps(self.value, default=repr)
        return shown if len(shown) <= 60 else f"{shown[:57]}..."

    def is_missing(self) -> bool:
        """Has the document nothing here?"""
        return isinstance(self.value, _Missing)

    def member(self, key: str) -> Spot:
        """The value of a key; a missing one where there is none, or this is no object."""
        value = self.value.get(key, _Missing()) if isinstance(self.value, Mapping) else _Missing()
        return Spot(self.document, f"{self.path}.{key}" if self.path else key, value)

    def check_keys(self, known: Sequence[str]) -> None:
        """Refuse what is no object, keys that are unknown, and keys that come twice."""
        for key in self._mapping():
            if key not in known:
                member = self.member(str(key))
                raise member.fault(f"one of the keys {', '.join(known)}", "an unknown one")
        self._check_no_key_twice()

    def keys(self) -> list[str]:
        """The keys of an object, whichever they are; refuse those that come twice."""
        self._check_no_key_twice()
        return list(self._mapping())

    def _mapping(self) -> Mapping[str, object]:
        if not isinstance(self.value, Mapping):
            raise self.fault("an object")
        return self.value

    def _check_no_key_twice(self) -> None:
        for key in getattr(self.value, "repeated", ()):
            raise self.member(key).fault("the key once", "it more than once")

    def items(self) -> list[Spot]:
        """The items of a list."""
        if not isinstance(self.value, (list, tuple)):
            raise self.fault("a list")
        return [
            Spot(self.document, f"{self.path}[{number}]", item)
            for number, item in enumerate(self.value)
        ]

    def positive(self) -> float:
        """A number above 0."""
        return self._number("a number above 0", lambda number: number > 0)

    def not_negative(self) -> float:
        """A number of at least 0."""
        return self._number("a number of at least 0", lambda number: number >= 0)

    def share(self) -> float:
        """A number above 0 and at most 1."""
        return self._number("a number above 0 and at most 1", lambda number: 0 < number <= 1)

    def _number(self, expected: str, accepted: Callable[[float], bool]) -> float:
        value = self.value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.fault(expected)
        try:
            number = float(value)
        except OverflowError:
            raise self.fault(expected, "one too large") from None
        if not math.isfinite(number) or not accepted(number):
            raise self.fault(expected)
        return number

    def count(self, least: int) -> int:
        """A whole number of at least `least`."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or self.value < least:
            raise self.fault(f"a whole number of at least {least}")
        return self.value

    def text(self) -> str:
        """A text that is not empty."""
        if not isinstance(self.value, str) or not self.value:
            raise self.fault("a text")
        return self.value

    def flag(self) -> bool:
        """true or false."""
        if not isinstance(self.value, bool):
            raise self.fault("true or false")
        return self.value
