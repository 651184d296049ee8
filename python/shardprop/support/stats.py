"""Counters of what decided, and why when it was not the core."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import Enum
from time import perf_counter
from typing import Any

from .cache import CacheStats
from .console import counted

__all__ = ["DecidedBy", "Recorder", "Stats", "ThreadCounts"]


class DecidedBy(str, Enum):
    """Who made a decision; equal to its name in JSON."""

    CORE = "core"
    TORCH = "torch"  # for lack of a rule, or it refused
    FALLBACK = "fallback"  # torch, since the core declined


@dataclass(frozen=True)
class Stats:
    """A snapshot. Elements of list ops that were decided together count as one decision; decisions
    inside another (of the ops that an op decomposes into) count as part of it.

    Attributes:
        decisions: Decisions made by the core.
        delegated: Decisions that torch made of ops that have no rule, its own or ours, by reason:
            its function enumerates, the core prices.
        fallbacks: Decisions of ops with a rule that torch made, since the core declined, by reason.
        without_rule: Decisions of `decisions` of ops that nobody has a rule for, on replicated
            operands (``enable(without_rule="replicate")``), by op.
        refused: Ops that torch refused, by the reason why they were left to it; no decision.
        strided_operands: Operands with strided shards, over all decisions.
        strided_fallbacks: Those of them in `fallbacks`.
        seconds: Time spent in propagation, nested calls counted once.
        price_fallbacks: Prices and plans that went to torch's planner, by reason.
        corrections: Decisions of `decisions`, redistributions and calls of ops with a handler that
            put right what torch alone may get wrong, by the name of the fault
            (docs/corrections.md).
        policy_fallbacks: Decisions, prices and plans that policy ``optimal`` left to policy
            ``torch``, by reason.
        unproved: Decisions of policy ``optimal`` that may not be the cheapest, since the proof
            would have taken too long; ``explain`` says by how much.
        caches: What each cache holds, by its name; all are bounded.
    """

    decisions: int
    delegated: dict[str, int]
    fallbacks: dict[str, int]
    without_rule: dict[str, int]
    refused: dict[str, int]
    strided_operands: int
    strided_fallbacks: int
    seconds: float
    price_fallbacks: dict[str, int]
    policy_fallbacks: dict[str, int]
    unproved: int
    corrections: dict[str, int]
    caches: dict[str, CacheStats]

    def __str__(self) -> str:
        lines = [
            f"{counted(self.decisions, 'decision')} by the core, "
            f"{1e3 * self.seconds:,.1f} ms of propagation"
        ]
        for head, counts in (
            ("by torch, for lack of a rule", self.delegated),
            ("fallback to torch", self.fallbacks),
            ("on replicated operands, for lack of a rule", self.without_rule),
            ("refused by torch", self.refused),
            ("price by torch's planner", self.price_fallbacks),
            ("left to policy torch", self.policy_fallbacks),
            ("corrected", self.corrections),
        ):
            lines += [f"{count:,} {head}: {reason}" for reason, count in counts.items()]
        if self.unproved:
            lines.append(f"{self.unproved:,} not proved to be the cheapest")
        lines.append(f"{self.cache_entries:,} entries in caches, {self.cache_bytes / 1e6:,.1f} MB")
        return "\n".join(lines)

    def since(self, before: Stats) -> Stats:
        """What was counted after `before`; where counters were reset between, since then. Caches
        are as they are now."""
        if before.seconds > self.seconds:
            return self
        counted_since: dict[str, Any] = {}
        for name, now in vars(self).items():
            then = getattr(before, name)
            if name != "caches":
                counted_since[name] = (
                    dict(Counter(now) - Counter(then)) if isinstance(now, dict) else now - then
                )
        return replace(self, **counted_since)

    @property
    def cache_entries(self) -> int:
        """Entries of all caches."""
        return sum(held.entries for held in self.caches.values())

    @property
    def cache_bytes(self) -> int:
        """Bytes that all caches hold (an estimate)."""
        return sum(held.bytes for held in self.caches.values())


class ThreadCounts:
    """What one thread counts. A block under it (``with``) is one decision, unless in another."""

    __slots__ = (
        "_depth",
        "_start",
        "correction",
        "corrections",
        "decisions",
        "delegated",
        "fallbacks",
        "handler_correction",
        "is_aside",
        "outcome",
        "plan_correction",
        "policy_fallbacks",
        "price_fallbacks",
        "refused",
        "seconds",
        "strided",
        "strided_fallbacks",
        "terms",
        "unproved",
        "without_rule",
    )

    def __init__(self, is_aside: bool = False) -> None:
        self.is_aside = is_aside
        self._depth = 0
        self._start = 0.0
        # Of the latest decision; see `propagation.observers.Observed`.
        self.outcome: tuple[DecidedBy, str] | None = None
        self.correction: str | None = None
        # Likewise of the latest plan.
        self.plan_correction: str | None = None
        # The fault that a handler of an op puts right, under which decisions are made.
        self.handler_correction: str | None = None
        # What the decisions are made under that this thread carries out; None before the first.
        self.terms: Any = None
        self.reset()

    def reset(self) -> None:
        """Start again from zero."""
        self.decisions = 0
        self.delegated: Counter[str] = Counter()
        self.fallbacks: Counter[str] = Counter()
        self.without_rule: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.price_fallbacks: Counter[str] = Counter()
        self.policy_fallbacks: Counter[str] = Counter()
        self.unproved = 0
        self.corrections: Counter[str] = Counter()
        self.strided = 0
        self.strided_fallbacks = 0
        self.seconds = 0.0

    def add(self, other: ThreadCounts) -> None:
        """Count what `other` has counted."""
        self.decisions += other.decisions
        self.delegated.update(other.delegated.copy())
        self.fallbacks.update(other.fallbacks.copy())
        self.without_rule.update(other.without_rule.copy())
        self.refused.update(other.refused.copy())
        self.price_fallbacks.update(other.price_fallbacks.copy())
        self.policy_fallbacks.update(other.policy_fallbacks.copy())
        self.unproved += other.unproved
        self.corrections.update(other.corrections.copy())
        self.strided += other.strided
        self.strided_fallbacks += other.strided_fallbacks
        self.seconds += other.seconds

    @property
    def inside(self) -> bool:
        """Is a decision under way?"""
        return self._depth > 0

    @property
    def inside_another(self) -> bool:
        """Is the decision under way inside another?"""
        return self._depth > 1

    def __enter__(self) -> ThreadCounts:
        self._depth += 1
        if self._depth == 1:
            self._start = perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += perf_counter() - self._start

    def decided(self, strided: int) -> None:
        """The core decided; `strided` operands had strided shards."""
        if self._depth == 1:
            self.decisions += 1
            self.strided += strided
            self.correction = self.handler_correction

    def corrected(self, fault: str) -> None:
        """The decision puts right what torch alone may get wrong."""
        if self._depth == 1:
            self.corrections[fault] += 1
            self.correction = fault

    def handler_corrects(self, fault: str) -> None:
        """A handler of an op puts right what torch's dispatcher gets wrong: so do the decisions
        that it asks for."""
        self.corrections[fault] += 1
        self.handler_correction = fault

    def ran_without_rule(self, op: str) -> None:
        """The decision was to replicate, for nobody has a rule for the op."""
        if self._depth == 1:
            self.without_rule[op] += 1

    def left_to_torch(self, reason: str, strided: int) -> None:
        """torch's own function decided an op that has no rule."""
        if self._depth == 1:
            self.delegated[reason] += 1
            self.outcome = (DecidedBy.TORCH, reason)
            self.strided += strided

    def fell_back(self, reason: str, strided: int) -> None:
        """The core declined."""
        if self._depth == 1:
            self.fallbacks[reason] += 1
            self.outcome = (DecidedBy.FALLBACK, reason)
            self.strided += strided
            self.strided_fallbacks += strided

    def refused_by_torch(self, reason: str) -> None:
        """torch refused an op that was left to it."""
        if self._depth == 1:
            self.refused[reason] += 1
            self.outcome = (DecidedBy.TORCH, reason)


class _Aside:
    """Counts that nobody reads, in the place of a thread's own; in one another, too."""

    def __init__(self, of_thread: threading.local) -> None:
        self._of_thread = of_thread
        self._counts = ThreadCounts(is_aside=True)
        self._before: list[ThreadCounts] = []

    def __enter__(self) -> None:
        before = self._of_thread.counts
        self._before.append(before)
        self._counts.terms = before.terms
        self._of_thread.counts = self._counts

    def __exit__(self, *_: object) -> None:
        self._of_thread.counts = self._before.pop()


class Recorder:
    """Counts; each thread for itself, so that none waits for another."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # reentrant, for signal handlers
        self._of_thread = threading.local()
        self._living: list[tuple[weakref.ref[threading.Thread], ThreadCounts]] = []
        self._of_the_dead = ThreadCounts()

    def mine(self) -> ThreadCounts:
        """The counts of this thread."""
        counts: ThreadCounts | None = getattr(self._of_thread, "counts", None)
        if counts is None:
            counts = self._of_thread.counts = ThreadCounts()
            with self._lock:
                self._bury()
                self._living.append((weakref.ref(threading.current_thread()), counts))
        return counts

    def aside(self) -> AbstractContextManager[None]:
        """What this thread does in the block is counted nowhere: it only asks, or stands in for a
        program."""
        spare: _Aside | None = getattr(self._of_thread, "spare", None)
        if spare is None:
            spare = self._of_thread.spare = _Aside(self._of_thread)
        self.mine()
        return spare

    def terms_of_threads(self) -> list[Any]:
        """What the threads that live carry out decisions under."""
        with self._lock:
            self._bury()
            return [counts.terms for _, counts in self._living if counts.terms is not None]

    def _bury(self) -> None:
        """Keep what threads counted that have ended, and no more of them."""
        living = []
        for thread, counts in self._living:
            found = thread()
            if found is not None and found.is_alive():
                living.append((thread, counts))
            else:
                self._of_the_dead.add(counts)
        self._living = living

    def reset(self) -> None:
        """Start again from zero."""
        with self._lock:
            self._of_the_dead.reset()
            for _, counts in self._living:
                counts.reset()

    def price_fell_back(self, reason: str) -> None:
        """A price or plan went to torch's planner."""
        self.mine().price_fallbacks[reason] += 1

    def plan_corrected(self, fault: str) -> None:
        """A plan puts right what torch's own would move wrongly."""
        counts = self.mine()
        counts.corrections[fault] += 1
        counts.plan_correction = fault

    def policy_fell_back(self, reason: str) -> None:
        """Policy ``optimal`` left something to policy ``torch``."""
        self.mine().policy_fallbacks[reason] += 1

    def not_proved(self) -> None:
        """A decision of policy ``optimal`` may not be the cheapest."""
        self.mine().unproved += 1

    def snapshot(self, caches: dict[str, CacheStats]) -> Stats:
        """The counters now, and what the caches hold."""
        total = ThreadCounts()
        with self._lock:
            total.add(self._of_the_dead)
            for _, counts in self._living:
                total.add(counts)
        return Stats(
            decisions=total.decisions,
            delegated=dict(total.delegated),
            fallbacks=dict(total.fallbacks),
            without_rule=dict(total.without_rule),
            refused=dict(total.refused),
            strided_operands=total.strided,
            strided_fallbacks=total.strided_fallbacks,
            seconds=total.seconds,
            price_fallbacks=dict(total.price_fallbacks),
            policy_fallbacks=dict(total.policy_fallbacks),
            unproved=total.unproved,
            corrections=dict(total.corrections),
            caches=caches,
        )
