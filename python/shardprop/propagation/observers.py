"""Tells observers of each decision: open traces, and the log at DEBUG.

The propagator asks `is_watched` once for each decision that no cache answers. If nobody observes,
that question is all it costs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import NamedTuple

from .._torch import OpSchema, OutputSharding
from ..support.stats import DecidedBy, Recorder, ThreadCounts
from . import logs

__all__ = [
    "Observed",
    "Observer",
    "add",
    "is_rehearsed",
    "is_watched",
    "observed",
    "rehearsed",
    "remove",
]


class Observed(NamedTuple):
    """One decision that was asked for.

    Attributes:
        schema: The question.
        answer: The decision; None where `error` says why there is none.
        error: The exception that propagation raised.
        outcome: Who decided in the core's place, and why. None: the core, or nobody had decided yet
            when the error was raised.
        correction: The fault of torch's that the decision puts right, by its name
            (docs/corrections.md). None: torch alone has no such fault here.
        start: When, by `time.perf_counter`.
        seconds: How long it took.
    """

    schema: OpSchema
    answer: OutputSharding | None
    error: Exception | None
    outcome: tuple[DecidedBy, str] | None
    correction: str | None
    start: float
    seconds: float


Observer = Callable[[Observed], None]

_observers: tuple[Observer, ...] = ()
_lock = threading.Lock()
_of_thread = threading.local()


def add(observer: Observer) -> None:
    """Call `observer` after each decision from now on, in the thread that asked for it."""
    global _observers
    with _lock:
        _observers = (*_observers, observer)


def remove(observer: Observer) -> None:
    """Undo one `add`."""
    global _observers
    with _lock:
        left = list(_observers)
        left.remove(observer)
        _observers = tuple(left)


def is_watched() -> bool:
    """Does anybody observe decisions?"""
    return bool(_observers) or logs.tells_decisions()


@contextmanager
def rehearsed() -> Iterator[None]:
    """What this thread runs in the block only stands in for a program: it is none of its events."""
    before = is_rehearsed()
    _of_thread.rehearsed = True
    try:
        yield
    finally:
        _of_thread.rehearsed = before


def is_rehearsed() -> bool:
    """Is this thread in such a block?"""
    return getattr(_of_thread, "rehearsed", False)


def observed(
    schema: OpSchema, decide: Callable[[OpSchema], OutputSharding], recorder: Recorder
) -> OutputSharding:
    """Return `decide(schema)`, and tell the observers.

    They are not told of a decision inside another one, which is part of it, nor of one that is made
    aside (`Recorder.aside`).
    """
    counts = recorder.mine()
    if counts.inside or counts.is_aside:
        return decide(schema)
    counts.outcome = counts.correction = None
    start = perf_counter()
    try:
        answer = decide(schema)
    except Exception as error:
        _tell(schema, None, error, counts, start)
        raise
    _tell(schema, answer, None, counts, start)
    return answer


def _tell(
    schema: OpSchema,
    answer: OutputSharding | None,
    error: Exception | None,
    counts: ThreadCounts,
    start: float,
) -> None:
    seconds = perf_counter() - start
    asked = Observed(schema, answer, error, counts.outcome, counts.correction, start, seconds)
    for observer in _observers:
        observer(asked)
    if logs.tells_decisions():
        outcome = asked.outcome
        result = asked.error if asked.answer is None else asked.answer.output_spec
        by = outcome[0] if outcome else DecidedBy.CORE
        logs.decided(asked.schema, result, asked.seconds, by.value)
