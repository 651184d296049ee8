"""What decisions are made under, by the process and by each thread.

A change holds for the process: each thread takes the new terms before its next op
(`_torch.before_clearing`). A thread that is in an op when they change finishes it: it carries out
the decision under the terms under which the decision was made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from .. import _core, _torch
from ..support.stats import Recorder
from .refusals import Refusals

if TYPE_CHECKING:
    from ..support.stats import ThreadCounts
    from .policy import Policy

__all__ = ["Terms", "TermsOfProcess"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Terms:
    """How the core decides while it is enabled."""

    policy: Policy
    strict: bool = False
    executor: bool = True
    without_rule: str | None = None
    refusals: Refusals = field(default_factory=Refusals)


class TermsOfProcess:
    """The terms that hold now, and the changes to them, of which there is one at a time.

    Attributes:
        current: What holds now.
    """

    def __init__(self, recorder: Recorder, at_first: Terms) -> None:
        self.current = at_first
        self._recorder = recorder
        self._lock = threading.Lock()
        self._changer: int | None = None
        # Odd while a change is under way.
        self._changes = 0
        _torch.before_clearing(self._take)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """The terms, and what torch has been given with them, change in the block."""
        with self._lock:
            self._changer = threading.get_ident()
            self._changes += 1
            try:
                yield
            finally:
                self._changes += 1
                self._changer = None

    def change_to(self, terms: Terms) -> None:
        """Decide under `terms` from now on, and put what goes with them in torch's places.

        Inside of `changing`. What carries out redistributions must be there before the first
        decision that needs it, and stay until the last one has been carried out.
        """
        if terms.policy.has_own_plans:
            terms.policy.install()
            self.current = terms
        else:
            self.current = terms
            self._take()
            terms.policy.install()

    def of_decision(self, counts: ThreadCounts) -> Terms:
        """What the decision is made under that has begun in this thread."""
        terms = counts.terms
        if terms is self.current or (terms is not None and counts.inside_another):
            return terms
        # What the thread decided before was decided under others.
        _core.fall_behind()
        return self._taken(counts)

    def under_one(self, decide: Callable[[Terms], T], counts: ThreadCounts) -> T:
        """`decide` under the terms of this thread, with torch's functions, which ask for prices in
        places that all threads share: once more if these were changed meanwhile."""
        while True:
            before = self._changes
            try:
                answer = decide(self.of_decision(counts))
            except Exception:
                if self._is_as_before(before):
                    raise
            else:
                if self._is_as_before(before):
                    return answer

    def _is_as_before(self, changes: int) -> bool:
        if changes == self._changes and changes % 2 == 0:
            return True
        if self._changer == threading.get_ident():  # a signal handler's op, during the change
            return True
        with self._lock:  # until the change is made
            return False

    def _take(self) -> None:
        """Decide under the current terms in this thread from now on."""
        self._taken(self._recorder.mine())

    def _taken(self, counts: ThreadCounts) -> Terms:
        """Say first, then look again: a thread that changes the terms and then looks for those
        that still need the old ones must find this one."""
        while True:
            counts.terms = terms = self.current
            if terms is self.current:
                return terms
