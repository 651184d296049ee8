"""Arrays and numbers as callers give them, as checked arrays of our own.

Every function either returns or raises `ShardpropError` with the place in its message, so that a
builder can check all arguments of a call before it changes anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from .errors import fault

__all__ = [
    "Flags",
    "Floats",
    "Ints",
    "bound",
    "factors",
    "frozen",
    "label_indices",
    "numbers",
    "prices",
    "whole",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

_NUMBER_KINDS = "biuf"
_LARGEST = np.iinfo(np.int32).max


def frozen(array: npt.NDArray[np.generic]) -> None:
    """Let nobody write into it: it may be shared by copies of a problem."""
    array.setflags(write=False)


def numbers(where: str, what: str, given: object, ndim: int) -> Floats:
    """A contiguous float64 array of `ndim` dims, without a look at the values.

    What is returned is never memory that the caller can write to.
    """
    try:
        array = np.asarray(given)
    except (ValueError, TypeError):
        raise fault(where, f"an array of {what}", "rows of unequal lengths") from None
    if array.dtype.kind not in _NUMBER_KINDS:
        raise fault(where, f"numbers as {what}", f"dtype {array.dtype}")
    if array.ndim != ndim:
        raise fault(where, f"{what} of {ndim} dim(s)", f"shape {array.shape}")
    taken = np.ascontiguousarray(array, dtype=np.float64)
    if taken.flags.writeable and (taken is given or taken.base is not None):
        taken = taken.copy()
    frozen(taken)
    return taken


def prices(where: str, what: str, given: object, ndim: int) -> Floats:
    """Costs or prices: finite, or +inf for what is forbidden; at least one is finite."""
    taken = numbers(where, what, given, ndim)
    if taken.size == 0:
        raise fault(where, f"at least one of the {what}", f"shape {taken.shape}")
    least = float(taken.min())
    if math.isnan(least):
        raise fault(where, f"{what} that are numbers", f"NaN at {_place(np.isnan(taken))}")
    if least == -math.inf:
        raise fault(where, f"{what} above -inf", f"-inf at {_place(np.isneginf(taken))}")
    if least == math.inf:
        raise fault(where, f"{what} of which one is finite", "inf everywhere")
    return taken


def factors(where: str, what: str, given: object, count: int) -> list[float]:
    """So many numbers, finite and at least 0."""
    taken = numbers(where, what, given, 1)
    if len(taken) != count:
        raise fault(where, f"{count} {what}", len(taken))
    wrong = ~(np.isfinite(taken) & (taken >= 0))
    if wrong.any():
        got = f"{taken[wrong][0]} at {_place(wrong)}"
        raise fault(where, f"finite {what}, at least 0", got)
    return [float(value) for value in taken]


def whole(where: str, what: str, given: object, end: int, ndim: int = 1) -> Ints:
    """Indices from 0 up to, not including, `end`."""
    try:
        array = np.asarray(given)
    except (ValueError, TypeError):
        raise fault(where, f"an array of {what}", "rows of unequal lengths") from None
    if array.shape == (0,):
        return np.empty((0,) if ndim == 1 else (0, 2), dtype=np.int32)
    if array.dtype.kind not in "iu":
        raise fault(where, f"whole numbers as {what}", f"dtype {array.dtype}")
    if array.ndim != ndim:
        raise fault(where, f"{what} of {ndim} dim(s)", f"shape {array.shape}")
    wrong = (array < 0) | (array >= min(end, _LARGEST))
    if wrong.any():
        value = array[np.unravel_index(int(wrong.argmax()), array.shape)]
        raise fault(where, f"{what} from 0 to {end - 1}", f"{value} at {_place(wrong)}")
    taken = array.astype(np.int32)
    frozen(taken)
    return taken


def label_indices(where: str, labels: Sequence[int] | Iterable[int] | Ints, count: int) -> Ints:
    """Labels of one node, each once, in ascending order."""
    if isinstance(labels, (int, np.integer)):
        labels = [int(labels)]
    elif isinstance(labels, str) or not isinstance(labels, Iterable):
        raise fault(where, "label indices", repr(labels))
    given = labels if isinstance(labels, np.ndarray) else list(labels)
    return np.unique(whole(where, "labels", given, count))


def bound(where: str, what: str, given: object) -> float:
    """A number that may be infinite."""
    if isinstance(given, bool) or not isinstance(given, (int, float, np.integer, np.floating)):
        raise fault(f"{where}, {what}", "a number", repr(given))
    try:
        value = float(given)
    except OverflowError:
        raise fault(f"{where}, {what}", "a number", "one that no float can hold") from None
    if math.isnan(value):
        raise fault(f"{where}, {what}", "a number", "NaN")
    return value


def _place(wrong: Flags) -> str:
    at = np.unravel_index(int(wrong.argmax()), wrong.shape)
    return "[" + ", ".join(str(int(index)) for index in at) + "]"
