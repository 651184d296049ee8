"""What a rule function has looked at: sizes that note every question put to them.

A rule reads little of its operands' sizes: mostly nothing, sometimes whether one is 1 or two are
the same. With what it has read written down, its rows are known for all sizes that would have given
it the same answers.

The sizes are ints that overrule what Python calls on an int. Code in C may read an int without
asking it; so this is for rules whose code is known (torch's and ours), and a test holds what it
notes against the guards that torch's symbolic sizes would leave
(tests/python/propagation/test_size_probe.py).
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .._torch import TensorMeta

__all__ = ["Reads", "watched"]

# An operand's index, and a dim of it.
Where = tuple[int, int]


class Reads:
    """Conditions on sizes under which a rule function would read what it has read.

    Attributes:
        least, most: Bounds per size; a size that is not there was not compared with a number.
        signs: Per pair of sizes the sign of their difference.
        strides: Has a stride been read?
        floats: Has a float argument been read?
    """

    def __init__(self) -> None:
        self.least: dict[Where, int] = {}
        self.most: dict[Where, int] = {}
        self.signs: dict[tuple[Where, Where], int] = {}
        self.strides = False
        self.floats = False

    def within(self, where: Where, least: float, most: float) -> None:
        """The answer is the same for sizes from `least` to `most`."""
        if least > -math.inf:
            self.least[where] = max(int(least), self.least.get(where, int(least)))
        if most < math.inf:
            self.most[where] = min(int(most), self.most.get(where, int(most)))

    def hold(self, shapes: Sequence[Sequence[int]]) -> bool:
        """Would the rule read the same of operands with these shapes?"""
        return (
            all(shapes[i][d] >= bound for (i, d), bound in self.least.items())
            and all(shapes[i][d] <= bound for (i, d), bound in self.most.items())
            and all(
                _sign(shapes[i][d], shapes[j][e]) == sign
                for ((i, d), (j, e)), sign in self.signs.items()
            )
        )


def _sign(a: int, b: int) -> int:
    return (a > b) - (a < b)


class _Size(int):
    """A size that notes what it is asked."""

    reads: Reads
    where: Where

    def read(self) -> int:
        """All of it."""
        value = int.__index__(self)
        self.reads.within(self.where, value, value)
        return value

    def compare(self, other: object) -> None:
        """Which of the two is greater, or neither."""
        value = int.__index__(self)
        if type(other) is _Size:
            self.reads.signs[self.where, other.where] = _sign(value, int.__index__(other))
        elif type(other) is int or type(other) is bool:
            if value == other:
                self.reads.within(self.where, value, value)
            elif value > other:
                self.reads.within(self.where, other + 1, math.inf)
            else:
                self.reads.within(self.where, -math.inf, other - 1)
        else:
            self.read()


def _comparing(function: Callable[[Any, Any], Any]) -> Callable[[_Size, object], Any]:
    def compare(self: _Size, other: object) -> Any:
        self.compare(other)
        mine = int.__index__(self)
        return function(mine, int.__index__(other) if type(other) is _Size else other)

    return compare


def _reading(function: Callable[..., Any]) -> Callable[..., Any]:
    def read(self: _Size | _Stride | _Float, *others: Any) -> Any:
        return function(self.read(), *map(_read, others))

    return read


class _Stride(int):
    """A stride that notes whether it is asked anything."""

    reads: Reads

    def read(self) -> int:
        """All of it."""
        self.reads.strides = True
        return int.__index__(self)


class _Float(float):
    """A float argument that notes whether it is asked anything."""

    reads: Reads

    def read(self) -> float:
        """All of it."""
        self.reads.floats = True
        return float.__pos__(self)


def _read(value: Any) -> Any:
    return value.read() if type(value) in (_Size, _Stride, _Float) else value


_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
# The machinery of classes stays as it is.
_OF_CLASSES = frozenset(dir(object)) - {"__hash__", "__repr__", "__str__", "__format__"}
_OF_CLASSES |= {"__getnewargs__", "__getformat__"}


def _overrule(kind: type, base: type) -> None:
    """Let each method that `kind` has of `base` note that it was called."""
    for name in set(dir(base)) - _OF_CLASSES:
        of_instances = not isinstance(vars(base).get(name), (classmethod, staticmethod))
        if callable(getattr(base, name)) and of_instances:
            setattr(kind, name, _reading(getattr(base, name)))


_overrule(_Float, float)
_overrule(_Size, int)
_overrule(_Stride, int)
for _name in _COMPARISONS:
    setattr(_Float, f"__{_name}__", _reading(getattr(float, f"__{_name}__")))
    setattr(_Stride, f"__{_name}__", _reading(getattr(int, f"__{_name}__")))
    setattr(_Size, f"__{_name}__", _comparing(getattr(operator, _name)))
_is_not = _comparing(operator.ne)
setattr(_Size, "__bool__", lambda self: _is_not(self, 0))  # noqa: B010 - as the others above


def _size(value: int, reads: Reads, where: Where) -> _Size:
    size = _Size(value)
    size.reads, size.where = reads, where
    return size


def _stride(value: int, reads: Reads) -> _Stride:
    stride = _Stride(value)
    stride.reads = reads
    return stride


def _watched_meta(meta: TensorMeta, reads: Reads, operand: int) -> TensorMeta:
    shape = [_size(size, reads, (operand, dim)) for dim, size in enumerate(meta.shape)]
    stride = [_stride(step, reads) for step in meta.stride]
    return TensorMeta(torch.Size(shape), tuple(stride), meta.dtype)


def watched(
    args: tuple[Any, ...], kwargs: dict[str, Any], reads: Reads
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a rule function whose sizes, strides and floats note in `reads` what they are
    asked. Operands are numbered as they come."""
    operands = itertools.count()

    def watch(item: Any) -> Any:
        if isinstance(item, TensorMeta):
            return _watched_meta(item, reads, next(operands))
        if type(item) is float:
            number = _Float(item)
            number.reads = reads
            return number
        if type(item) in (tuple, list):
            return type(item)(map(watch, item))
        return item

    return watch(args), {name: watch(value) for name, value in kwargs.items()}
