"""A line, when a program ends, of what was decided and how long that took."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from time import perf_counter

from . import _torch
from ._torch import OpSchema, OutputSharding
from .propagation.hook import after_install
from .propagation.propagator import disable, stats
from .propagation.timing import watch_propagation
from .support.console import counted
from .support.stats import Stats

__all__ = ["ExitReport"]

_ASKED = 8
_SECONDS = 5.0


class ExitReport:
    """Watches what is decided from now on. Of a few decisions, drawn from all, torch alone is asked
    at the end, for five seconds at most: how long would it have taken for them all?"""

    def __init__(self) -> None:
        self._drawn: list[OpSchema] = []
        self._met = 0
        self._chance = random.Random(0)
        self._process = os.getpid()
        self._watching = ExitStack()
        self._watch()
        after_install(self._watch)

    def _watch(self) -> None:
        self._watching.enter_context(watch_propagation(self._note))

    def _note(self, schema: OpSchema, answer: OutputSharding | Exception, seconds: float) -> None:
        if isinstance(answer, Exception):
            return
        self._met += 1
        if len(self._drawn) < _ASKED:
            self._drawn.append(schema)
        elif (place := self._chance.randrange(self._met)) < _ASKED:
            self._drawn[place] = schema

    def print(self) -> None:
        """Print the line on stderr; not in a child that was forked."""
        if os.getpid() != self._process:
            return
        found = stats()
        self._watching.close()
        disable()
        print(f"shardprop: {line(found, self._seconds_of_torch())}", file=sys.stderr)

    def _seconds_of_torch(self) -> tuple[int, float]:
        """How many of the drawn decisions torch made in its time, and how long one took."""
        took: list[float] = []
        with suppress(_TimeIsUp), _time_limit(_SECONDS):
            # The first is asked twice: torch may import its compiler for it.
            for schema in (*self._drawn[:1], *self._drawn):
                start = perf_counter()
                with suppress(ValueError, RuntimeError, AssertionError):  # its group may be gone
                    _torch.torch_propagate(schema)
                    took.append(perf_counter() - start)
        counted_in = took[1:]
        return len(counted_in), sum(counted_in) / max(len(counted_in), 1)


def line(found: Stats, of_torch: tuple[int, float]) -> str:
    """What the counters say, in a line.

    Args:
        found: The counters.
        of_torch: How many decisions torch alone was timed on, and its seconds for one.
    """
    asked, seconds = of_torch
    alone = f" (torch alone about {seconds * found.decisions:,.2f}, by {asked} of them)"
    return ", ".join(
        [
            f"{counted(found.decisions, 'decision')} by the core in {found.seconds:,.3f} s"
            f"{alone if asked else ''}",
            f"{sum(found.delegated.values()):,} by torch for lack of a rule",
            f"{sum(found.fallbacks.values()):,} fallbacks",
            f"{sum(found.refused.values()):,} refused",
            f"{sum(found.corrections.values()):,} corrected",
        ]
    )


class _TimeIsUp(BaseException):
    """Not an Exception, which torch's code may catch."""


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """A block that is left with `_TimeIsUp` after so long; where no signal can say so (Windows,
    another thread), at once.

    Raises:
        _TimeIsUp: the time is over.
    """

    def end(*_: object) -> None:
        raise _TimeIsUp

    try:
        before = signal.signal(signal.SIGALRM, end)
    except (AttributeError, ValueError):
        raise _TimeIsUp from None
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)
        signal.setitimer(signal.ITIMER_REAL, *timer)  # the program's own
