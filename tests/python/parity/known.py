"""Differences from torch that we know of and accept, as named predicates.

A predicate says which differences it excuses and why. It is deleted by the change that removes the
difference; the long run fails if a predicate excuses nothing. The list is meant to stay empty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .case import Case
from .outcome import Outcome


@dataclass(frozen=True)
class Known:
    """One accepted difference. ``applies(case, torch's outcome, ours)``."""

    name: str
    reason: str
    applies: Callable[[Case, Outcome, Outcome], bool]


KNOWN: tuple[Known, ...] = ()


def excuse(case: Case, theirs: Outcome, ours: Outcome) -> str | None:
    """The name of the predicate that excuses a difference, or None."""
    return next((known.name for known in KNOWN if known.applies(case, theirs, ours)), None)
