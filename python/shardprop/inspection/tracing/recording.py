"""What runs while a trace is open: small tuples are stored, and nothing else is done.

Two places are watched: `propagation.observers`, which reports each decision, and torch's
``redistribute_local_tensor`` (or what a policy put there), which is wrapped in a function that
takes the time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import torch

from ... import _torch
from ..._torch import DTensorSpec, MovedOperand, OpOverload
from ...propagation import observers
from ...propagation.observers import Observed
from ...propagation.policy import Policy
from ...propagation.propagator import current_policy, take_plan_correction
from .module_stack import Spot, Whereabouts
from .source_lines import is_users

__all__ = ["CorrectedCalls", "Decided", "Moved", "Recording", "begin", "end"]


class Decided(NamedTuple):
    """A decision, as it was seen."""

    asked: Observed
    spot: Spot
    policy: Policy


class Moved(NamedTuple):
    """A redistribution, as it was seen, and what for (see `_torch.moved_for`)."""

    moved: MovedOperand | OpOverload | None
    src: DTensorSpec
    dst: DTensorSpec
    start: float
    seconds: float
    spot: Spot
    policy: Policy
    correction: str | None


class Recording:
    """The events of one trace; of the first `limit` all, of the rest how many.

    Attributes:
        events: In the order in which they ended.
        dropped: How many came after the limit.
        dropped_seconds: What the decisions among those took.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self.events: list[Decided | Moved] = []
        self.dropped = 0
        self.dropped_seconds = 0.0

    def add(self, event: Decided | Moved) -> None:
        """Store an event. No lock: lists have theirs, and each thread may go one past the limit."""
        if len(self.events) < self._limit:
            self.events.append(event)
            return
        with self._lock:
            self.dropped += 1
            if isinstance(event, Decided):
                self.dropped_seconds += event.asked.seconds


class CorrectedCalls(Recording):
    """Of all events only those that put a fault of torch's right, and the decisions made with
    corrections off."""

    def add(self, event: Decided | Moved) -> None:
        """Store the event if it is one of these."""
        if isinstance(event, Moved):
            is_wanted = event.correction is not None
        else:
            is_wanted = event.asked.correction is not None or not event.policy.corrects
        if is_wanted:
            super().add(event)


_open: tuple[Recording, ...] = ()
_lock = threading.Lock()
_where = Whereabouts()


def begin(recording: Recording, model: torch.nn.Module | None) -> None:
    """Record from now on, in all threads, beside the traces that are open already."""
    global _open, _where
    with _lock:
        if not _open:
            _where = Whereabouts()
            _where.start()
            observers.add(_on_decision)
            _torch.watch_redistributions(_around)
        if model is not None:
            _where.learn(model, "")
        _open = (*_open, recording)


def end(recording: Recording) -> None:
    """Record no longer; with the last trace everything is as it was."""
    global _open, _where
    with _lock:
        _open = tuple(each for each in _open if each is not recording)
        if not _open:
            _torch.unwatch_redistributions()
            observers.remove(_on_decision)
            _where.stop()
            _where = Whereabouts()  # what the old one holds of the program goes


def _on_decision(asked: Observed) -> None:
    event = Decided(asked, _where.here(asked.schema.op), current_policy())
    for recording in _open:
        recording.add(event)


def _around(inner: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """`inner`, which carries out a redistribution, and a note that it did."""

    def redistribute_local_tensor(
        local_tensor: torch.Tensor,
        current_spec: DTensorSpec,
        target_spec: DTensorSpec,
        **settings: Any,
    ) -> torch.Tensor:
        if observers.is_rehearsed():
            return inner(local_tensor, current_spec, target_spec, **settings)
        take_plan_correction()
        start = perf_counter()
        result = inner(local_tensor, current_spec, target_spec, **settings)
        seconds = perf_counter() - start
        moved = _torch.moved_for(2, is_users)
        op = moved.op if isinstance(moved, MovedOperand) else moved
        spot, policy, fault = _where.here(op), current_policy(), take_plan_correction()
        event = Moved(moved, current_spec, target_spec, start, seconds, spot, policy, fault)
        for recording in _open:
            recording.add(event)
        return result

    return redistribute_local_tensor
