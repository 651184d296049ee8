"""Differences from torch that we know of and accept, as named predicates.

A predicate says which differences it excuses and why. It is deleted by the change that removes the
difference; the long run fails if a predicate excuses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shardprop.decomposition import Declined
from shardprop.propagator import decomposer

from .case import Case
from .outcome import Outcome


@dataclass(frozen=True)
class Known:
    """One accepted difference. ``applies(case, torch's outcome, ours)``."""

    name: str
    reason: str
    applies: Callable[[Case, Outcome, Outcome], bool]


def _is_beyond_torch(case: Case, theirs: Outcome, ours: Outcome) -> bool:
    if theirs.error is None or theirs.error[0] != "NotImplementedError" or ours.error is not None:
        return False
    try:
        return decomposer.rows(case.schema()).beyond_torch
    except Declined:
        return False


KNOWN: tuple[Known, ...] = (
    Known(
        "decomposition beyond torch",
        "torch refuses an op whose decomposition calls a factory (zeros, arange, ...): no operand "
        "is a DTensor. shardprop decides it where every row is right on any rank, which the module "
        "shardprop.decomposition.beyond_torch checks row by row.",
        _is_beyond_torch,
    ),
)


def excuse(case: Case, theirs: Outcome, ours: Outcome) -> str | None:
    """The name of the predicate that excuses a difference, or None."""
    return next((known.name for known in KNOWN if known.applies(case, theirs, ours)), None)
