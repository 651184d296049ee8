"""Counters of what decided, and why when it was not the core."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

from .held_bytes import CacheStats

__all__ = ["Recorder", "Stats"]


@dataclass(frozen=True)
class Stats:
    """A snapshot. Elements of list ops that were decided together count as one decision; decisions
    inside another (of the ops that an op decomposes into) count as part of it.

    Attributes:
        decisions: Decisions made by the core.
        delegated: Decisions that torch made of ops that have no rule, its own or ours, by reason:
            its function enumerates, the core prices.
        fallbacks: Decisions of ops with a rule that were left to torch, by reason; where torch
            refuses the op, that is how its own error is raised.
        strided_operands: Operands with strided shards, over all decisions.
        strided_fallbacks: Those of them in `fallbacks`.
        seconds: Time spent in propagation, nested calls counted once.
        price_fallbacks: Prices and plans that went to torch's planner, by reason.
        caches: What each cache holds, by its name; all are bounded.
    """

    decisions: int
    delegated: dict[str, int]
    fallbacks: dict[str, int]
    strided_operands: int
    strided_fallbacks: int
    seconds: float
    price_fallbacks: dict[str, int]
    caches: dict[str, CacheStats]

    @property
    def cache_entries(self) -> int:
        """Entries of all caches."""
        return sum(held.entries for held in self.caches.values())

    @property
    def cache_bytes(self) -> int:
        """Bytes that all caches hold (an estimate)."""
        return sum(held.bytes for held in self.caches.values())


class Recorder:
    """Counts; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = threading.local()
        self.reset()

    def reset(self) -> None:
        """Start again from zero."""
        with self._lock:
            self._decisions = 0
            self._delegated: Counter[str] = Counter()
            self._fallbacks: Counter[str] = Counter()
            self._price_fallbacks: Counter[str] = Counter()
            self._strided = 0
            self._strided_fallbacks = 0
            self._seconds = 0.0

    def _is_nested(self) -> bool:
        return getattr(self._depth, "value", 0) > 1

    def decided(self, strided: int) -> None:
        """The core decided; `strided` operands had strided shards."""
        if self._is_nested():
            return
        with self._lock:
            self._decisions += 1
            self._strided += strided

    def delegated(self, reason: str, strided: int) -> None:
        """torch's own function decided an op without a single-dim rule."""
        if self._is_nested():
            return
        with self._lock:
            self._delegated[reason] += 1
            self._strided += strided

    def fell_back(self, reason: str, strided: int) -> None:
        """The core declined."""
        if self._is_nested():
            return
        with self._lock:
            self._fallbacks[reason] += 1
            self._strided += strided
            self._strided_fallbacks += strided

    def price_fell_back(self, reason: str) -> None:
        """A price or plan went to torch's planner."""
        with self._lock:
            self._price_fallbacks[reason] += 1

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Adds the time of the block, which is one decision, unless inside another."""
        depth = getattr(self._depth, "value", 0)
        self._depth.value = depth + 1
        start = perf_counter()
        try:
            yield
        finally:
            self._depth.value = depth
            if depth == 0:
                with self._lock:
                    self._seconds += perf_counter() - start

    def snapshot(self, caches: dict[str, CacheStats]) -> Stats:
        """The counters now, and what the caches hold."""
        with self._lock:
            return Stats(
                decisions=self._decisions,
                delegated=dict(self._delegated),
                fallbacks=dict(self._fallbacks),
                strided_operands=self._strided,
                strided_fallbacks=self._strided_fallbacks,
                seconds=self._seconds,
                price_fallbacks=dict(self._price_fallbacks),
                caches=caches,
            )
