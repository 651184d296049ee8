"""Functions that torch's dispatcher in C++ holds, given other code."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, Protocol

from .compiling import hide_from_dynamo

__all__ = ["HeldFunction", "StandIn"]


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
        own = self._function
        self.torchs: Callable[..., Any] = FunctionType(
            own.__code__, own.__globals__, own.__name__, own.__defaults__
        )

    def with_code_of(self, other: Any) -> StandIn:
        """What has the function do what `other` does, unless somebody else has changed it.

        Args:
            other: It takes the same arguments and has no closure. What it needs besides are
                defaults of further ones: its globals would be those of torch's module.
        """
        return _OtherCode(self._function, other)


class StandIn(Protocol):
    """What can be put into the place of something of torch's."""

    def install(self) -> None:
        """Put it there, unless somebody else's stands there."""

    def uninstall(self) -> None:
        """Put torch's own there again, unless somebody else's stands there by now."""


class _OtherCode:
    def __init__(self, function: Any, other: Any) -> None:
        self._function, self._other = function, other
        self._code, self._defaults = function.__code__, function.__defaults__

    def install(self) -> None:
        if self._function.__code__ is self._code:
            hide_from_dynamo(self._other)
            # A thread that comes in between has more defaults than it needs.
            self._function.__defaults__ = self._other.__defaults__
            self._function.__code__ = self._other.__code__

    def uninstall(self) -> None:
        if self._function.__code__ is self._other.__code__:
            self._function.__code__ = self._code
            self._function.__defaults__ = self._defaults


def _is_torchs(function: Any) -> bool:
    is_plain = type(function) is FunctionType and function.__closure__ is None
    return is_plain and function.__module__.partition(".")[0] == "torch"


def _no_function() -> None:
    """Stands for a function that nobody calls."""
