"""`Trace`: what a block of a program decided and moved."""

from __future__ import annotations

import html
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ... import _torch
from ...errors import ShardpropError
from ...propagation.optimal_policy import OptimalPolicy
from ...propagation.policy import Policy
from ...propagation.propagator import counters, current_policy
from ...support.stats import DecidedBy, Stats
from .events import decision_of, redistribution_of
from .json_form import trace_json
from .model import TracedDecision, TracedRedistribution, policy_of
from .plans import Plans
from .recording import Decided, Recording
from .rows import (
    CorrectionRow,
    ModuleRow,
    MoveRow,
    across_modules,
    by_module,
    corrected,
    moves_alike,
)
from .text import report_text

if TYPE_CHECKING:
    from ..explanation import Explanation

__all__ = ["Trace", "measured"]


class Trace:
    """What `trace` recorded; to be read when the block has ended.

    Attributes:
        hits: Decisions that the cache in torch's dispatcher answered, in the thread that opened the
            trace (torch counts for each thread).
        misses: Those that it did not, likewise.
        wall_seconds: How long the block took.
        stats: What `shardprop.stats()` counted during the block; caches are not measured.
    """

    hits: int = 0
    misses: int = 0
    wall_seconds: float = 0.0
    stats: Stats

    def __init__(self, recording: Recording, plans: Plans) -> None:
        self._recording = recording
        self._plans = plans
        self._decisions: list[TracedDecision] = []
        self._redistributions: list[TracedRedistribution] = []
        self._alike: tuple[list[MoveRow], list[int]] = ([], [])
        self._start = 0.0

    def _read(self) -> None:
        """Put events that came since the last time into words."""
        new = self._recording.events[len(self._decisions) + len(self._redistributions) :]
        for event in new:
            if isinstance(event, Decided):
                self._decisions.append(decision_of(event, self._start))
            else:
                self._redistributions.append(redistribution_of(event, self._start, self._plans))

    @property
    def decisions(self) -> list[TracedDecision]:
        """Decisions that no cache answered, in the order in which they were made."""
        self._read()
        return self._decisions

    @property
    def redistributions(self) -> list[TracedRedistribution]:
        """Redistributions that ran, in the order in which they ended."""
        self._read()
        return self._redistributions

    @property
    def seconds(self) -> float:
        """What propagation took, of all threads."""
        held = sum(decision.seconds for decision in self.decisions)
        return held + self._recording.dropped_seconds

    @property
    def dropped(self) -> int:
        """Events past the limit: counted, not held."""
        return self._recording.dropped

    def _by_row(self) -> tuple[list[MoveRow], list[int]]:
        if len(self._alike[1]) != len(self.redistributions):
            self._alike = moves_alike(self.redistributions)
        return self._alike

    def moves(self) -> list[MoveRow]:
        """Redistributions, those alike counted together, in the order of their first."""
        return [*self._by_row()[0]]

    def most_expensive(self, n: int = 10) -> list[MoveRow]:
        """The `n` most expensive implicit redistributions that communicate, by modelled time of all
        that are alike, whatever module they are in; those that have no plan to show come last."""
        implicit = across_modules([row for row in self.moves() if not row.explicit])
        sending = [row for row in implicit if row.planned.sends]
        return sorted(sending, key=lambda row: -row.total_us)[:n]

    def dearest(self, n: int = 10) -> list[MoveRow]:
        """Deprecated: `most_expensive`."""
        text = "Trace.dearest is now most_expensive; the former name goes with the next release."
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return self.most_expensive(n)

    def by_module(self) -> list[ModuleRow]:
        """A row for each module and op, in the order in which they were first met."""
        return by_module(self.decisions, self.moves())

    @property
    def corrections(self) -> list[CorrectionRow]:
        """Where a fault of torch's was put right: a row for each fault, op and place, decisions
        before redistributions. Decisions are counted, not calls (see `decisions`)."""
        return corrected(self.decisions, self.redistributions)

    def deciders(self) -> dict[str, int]:
        """How many decisions the core made, torch for lack of a rule, and torch as the fallback."""
        counts = Counter(decision.decider for decision in self.decisions)
        return {decider.value: counts[decider] for decider in DecidedBy}

    def reasons(self, decider: DecidedBy | str) -> dict[str, int]:
        """Why it was not the core, of the decisions that torch made."""
        found = [d.reason or "" for d in self.decisions if d.decider == decider]
        return dict(Counter(found).most_common())

    @property
    def errors(self) -> int:
        """How many decisions ended in an error."""
        return sum(decision.error is not None for decision in self.decisions)

    def counters(self) -> str:
        """What was counted, in one line."""
        by = ", ".join(f"{count} {who}" for who, count in self.deciders().items() if count)
        return (
            f"{len(self.decisions)} decisions{f' ({by})' if by else ''} in "
            f"{1e3 * self.seconds:.1f} ms, {len(self.redistributions)} redistributions"
        )

    def explain(self, decision: TracedDecision | int) -> Explanation:
        """Why a decision is what it is: `shardprop.explain` of its question, asked now.

        Args:
            decision: One of `decisions`, or its index.

        Raises:
            ShardpropError: there is no such decision, it was made under another policy than the one
                that is on now, or with other settings of it, or as `shardprop.explain` does.
        """
        if not isinstance(decision, TracedDecision):
            decision = self._at(decision)
        policy = current_policy()
        if decision.policy != policy.name:
            raise ShardpropError(
                f"Expected policy {decision.policy!r}, under which {decision.op} was decided, got "
                f"{policy.name!r}: an explanation asks again. Enable the one of the trace."
            )
        if not _decide_alike(policy_of(decision), policy):
            raise ShardpropError(
                f"Expected the settings of policy {policy.name!r} with which {decision.op} was "
                "decided, got others: an explanation asks again. Enable those of the trace."
            )
        from ..explanation import Explanation, explain_schema

        return Explanation(decision.op, [explain_schema(decision.schema)])

    def _at(self, index: object) -> TracedDecision:
        count = len(self.decisions)
        if isinstance(index, bool) or not isinstance(index, int):
            raise ShardpropError(
                f"Expected a decision of the trace or its index, got a {type(index).__name__}."
            )
        if not count:
            raise ShardpropError("Expected a trace with decisions to explain, got one of none.")
        if not -count <= index < count:
            raise ShardpropError(f"Expected an index of {count} decisions, got {index}.")
        return self.decisions[index]

    def text(self, width: int = 110, most_expensive: int = 10) -> str:
        """The report as it is printed.

        Args:
            width: Columns at most.
            most_expensive: How many of the most expensive redistributions.
        """
        return report_text(self, width, most_expensive)

    def to_json(self) -> dict[str, Any]:
        """All of it in plain values, as ``schemas/trace.schema.json`` in the package describes."""
        return trace_json(self, self._by_row()[1])

    def to_html(self) -> str:
        """The report as one HTML file that needs no other."""
        from ..report import page

        return page(self.to_json())

    def save_html(self, path: str | PathLike[str]) -> None:
        """Write `to_html` to a file.

        Raises:
            OSError: it cannot be written.
        """
        Path(path).write_text(self.to_html(), encoding="utf-8")

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Trace: {self.counters()}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text())}</pre>"


@contextmanager
def measured(trace: Trace) -> Iterator[None]:
    """Read what torch and this package count, and the clock, before the block and after it."""
    trace.stats, cached, trace._start = counters(), _torch.decision_cache_stats(), perf_counter()
    try:
        yield
    finally:
        stats, cache, now = counters(), _torch.decision_cache_stats(), perf_counter()
        trace.wall_seconds = now - trace._start
        trace.hits, trace.misses = _since(cached, cache)
        trace.stats = stats.since(trace.stats)


def _decide_alike(one: Policy, other: Policy) -> bool:
    """Do two policies of one name have the same settings?"""
    if isinstance(one, OptimalPolicy) and isinstance(other, OptimalPolicy):
        return one.settings == other.settings
    return True


def _since(before: tuple[int, int], after: tuple[int, int]) -> tuple[int, int]:
    """Hits and misses between two readings; where the cache was cleared between, since then."""
    if any(b > a for b, a in zip(before, after, strict=True)):
        return after
    return after[0] - before[0], after[1] - before[1]
