"""Functions that torch's dispatcher in C++ holds, given other code."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from .compiling import hide_from_dynamo

__all__ = ["HeldFunction"]


class HeldFunction:
    """A function that C++ gets at the first op of a process, and calls ever after: another one can
    be put into its place no more, but other code into the function.

    Args:
        function: The function. One that is not torch's own, but somebody else's around it, stays.

    Attributes:
        torchs: A function of its own that does what torch's does.
    """

    def __init__(self, function: Any) -> None:
        self._function: Any = function if _is_torchs(function) else _no_function
        self._code, self._defaults = self._function.__code__, self._function.__defaults__
        self.torchs: Callable[..., Any] = FunctionType(
            self._code, self._function.__globals__, self._function.__name__, self._defaults
        )

    def become(self, other: Any) -> None:
        """Have the function do what `other` does, unless somebody else has changed it.

        Args:
            other: It takes the same arguments and has no closure. What it needs besides are
                defaults of further ones: its globals would be those of torch's module.
        """
        if self._function.__code__ is self._code:
            hide_from_dynamo(other)
            # A thread that comes in between has more defaults than it needs.
            self._function.__defaults__ = other.__defaults__
            self._function.__code__ = other.__code__

    def become_torchs(self, other: Any) -> None:
        """Undo `become`."""
        if self._function.__code__ is other.__code__:
            self._function.__code__ = self._code
            self._function.__defaults__ = self._defaults


def _is_torchs(function: Any) -> bool:
    is_plain = type(function) is FunctionType and function.__closure__ is None
    return is_plain and function.__module__.partition(".")[0] == "torch"


def _no_function() -> None:
    """Stands for a function that nobody calls."""
