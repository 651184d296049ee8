"""From an op and calls of it to the rule that it could have."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ..._torch import OpOverload
from ..calls.call import Call
from ..settings import Settings
from .checking import check, without
from .difference import differences
from .evidence import Evidence, gather
from .observation import Observation
from .render import words
from .results import Discovery, LeftOut, Shown
from .row_trials import REDUCE_OPS, SimulatedCall
from .rows import Row, cuts
from .rule import Rule
from .synthesis import Proposal, propose
from .variations import never_varied, varied
from .verify import Verdict, compare

__all__ = ["Wanted", "discover"]

# Rules that are compiled to find one whose text says what was meant.
_MOST_TEXTS = 200

# Rules that are put to the validator's test, each without what was refuted of those before.
_MOST_CHECKS = 8

# The end of the checks, in terms of the time for calls.
_TO_CHECK = 1.6


@dataclass(frozen=True)
class Wanted:
    """What a discovery is to try.

    Attributes:
        ranks: Sizes of the 1-D meshes.
        reduce_ops: The reduce ops that operands may wait for.
        diff: Compare with the rule that is there.
        made: Make more calls from the given ones; an op may crash on what nobody ever gave it.
        seconds: No further call is tried after so many.
        seed: Seed of every random number.
    """

    ranks: tuple[int, ...] = (2, 3)
    reduce_ops: tuple[str, ...] = field(default=REDUCE_OPS)
    diff: bool = False
    made: bool = True
    seconds: float = math.inf
    seed: int = 0


def discover(op: OpOverload, calls: Sequence[Call], wanted: Wanted | None = None) -> Discovery:
    """The shortest rule that has the rows which hold for an op.

    Every row of the rule holds on every call that can tell. Rows that hold and are not in the rule
    are told.

    Args:
        op: The op.
        calls: Calls of it; more are made from them, with other arguments and sizes.
        wanted: What to try.
    """
    wanted = wanted or Wanted()
    start = time.monotonic()
    found = Discovery(str(op), ranks=wanted.ranks, given=len(calls))
    found.made_up = bool(calls) and all(call.is_made_up for call in calls)
    tried: list[SimulatedCall] = []

    def explore(call: Call, ranks: int) -> SimulatedCall:
        tried.append(SimulatedCall(call, ranks, wanted.reduce_ops, wanted.seed))
        return tried[-1]

    all_calls = varied(calls, wanted.seed) if wanted.made else calls
    evidence = gather(op, all_calls, wanted.ranks, explore, start + wanted.seconds)
    found.calls = len(evidence.calls)
    found.rows = sum(one.tried for one in tried)
    found.held = sum(len(one.rows) for one in tried)
    found.skipped = dict(evidence.skipped)
    if not evidence.observations:
        found.error = "no call says anything about a rule; give others with --samples FILE"
        if time.monotonic() > start + wanted.seconds:
            found.error = f"not done within {wanted.seconds:g} s"
        return found
    found.never_varied = never_varied(evidence.calls)
    deadline = start + _TO_CHECK * wanted.seconds
    chosen, evidence = _choose_and_check(evidence, calls, wanted, deadline, found)
    if chosen is None:
        return found
    proposal, verdict = chosen
    found.rule = proposal.text
    found.factors = list(_shown(proposal.rule, evidence))
    found.left_out = list(_left_out(verdict, evidence))
    found.fails_empty = {
        seen.show(row): f"{seen.text} on {seen.ranks} ranks" for row, seen in verdict.empty.items()
    }
    if wanted.diff:
        found.compared_with, found.differences = differences(evidence, proposal.text)
    found.seconds = round(time.monotonic() - start, 3)
    return found


def _choose_and_check(
    evidence: Evidence, given: Sequence[Call], wanted: Wanted, deadline: float, found: Discovery
) -> tuple[tuple[Proposal, Verdict] | None, Evidence]:
    """The chosen proposal that withstands the validator, and the evidence without what did not.

    What is told of it goes to `found`.
    """
    settings = Settings(ranks=wanted.ranks, missing=False, scripts=False, seed=wanted.seed)
    for _ in range(_MOST_CHECKS):
        chosen, found.unfit = _choose_for_most(evidence)
        if chosen is None:
            break
        checked = check(evidence, given, chosen[0].text, settings, deadline)
        found.unchecked = checked.undone
        if not checked.reasons:
            return chosen, evidence
        for rows, reason in checked.reasons.items():
            found.refuted.setdefault(rows, reason)
        evidence = without(evidence, checked.refuted)
    found.error = "no rule of the notation fits the calls"
    if found.refuted:
        found.error += " and withstands the validator"
    return None, evidence


def _choose_for_most(evidence: Evidence) -> tuple[tuple[Proposal, Verdict] | None, list[str]]:
    """The chosen proposal, and the calls that it does not fit."""
    chosen = _choose(evidence)
    if chosen is not None and not any(map(cuts, chosen[1].missing)):
        return chosen, []
    # Where an argument names a dim, a scalar has none; and two arguments may name the same.
    usual = [seen for seen in evidence.observations if not _is_odd(seen)]
    if not usual or len(usual) == len(evidence.observations):
        return chosen, []
    other = _choose(replace(evidence, observations=usual))
    if other is None or (chosen is not None and other[1].matched <= chosen[1].matched):
        return chosen, []
    everywhere = compare(evidence, other[0].text)
    if everywhere.unsound:
        return chosen, []
    unfit = (seen.text for seen in evidence.observations if seen.call in everywhere.unfit)
    return (other[0], everywhere), list(dict.fromkeys(unfit))


def _is_odd(seen: Observation) -> bool:
    """Has the call a scalar, or two arguments that name the same dim?"""
    slots = range(len(seen.shapes))
    dims = [
        dim % (seen.ndim(0) or 1)
        for name, dim in seen.arguments.items()
        if name.startswith("dim")
        if isinstance(dim, int)
    ]
    return any(seen.ndim(slot) == 0 for slot in slots) or len(set(dims)) < len(dims)


def _choose(evidence: Evidence) -> tuple[Proposal, Verdict] | None:
    """The first proposal whose text, compiled, claims nothing that failed and misses least."""
    best: tuple[Proposal, Verdict] | None = None
    for proposal in propose(evidence)[:_MOST_TEXTS]:
        verdict = compare(evidence, proposal.text)
        if verdict.unfit or verdict.unsound:
            continue
        if best is None or verdict.matched > best[1].matched:
            best = (proposal, verdict)
        if verdict.matched >= proposal.explained:
            break
    return best


def _shown(rule: Rule, evidence: Evidence) -> Iterator[Shown]:
    """Each factor with the calls that showed it."""
    for name, word in words(rule, evidence.signature).items():
        if name.whole:
            continue
        has: set[int] = set()
        shows: dict[int, str] = {}
        for seen in evidence.observations:
            for row in rule.rows_of(name, seen):
                has.add(seen.call)
                if row in seen.rows:
                    shows.setdefault(seen.call, seen.text)
        example = next(iter(shows.values()), "")
        if has:
            yield Shown(word, len(shows), len(has), example)


def _left_out(verdict: Verdict, evidence: Evidence) -> Iterator[LeftOut]:
    """What the rule misses: rows that hold on most calls first."""
    for row, held in sorted(verdict.missing.items(), key=_by_shards_and_calls):
        calls = {seen.call for seen in held}
        refuting = next((s for s in evidence.observations if _refutes(s, row, held[0])), None)
        yield LeftOut(
            held[0].show(row),
            len(calls),
            held[0].text,
            None if refuting is None else f"{refuting.text} on {refuting.ranks} ranks",
        )


def _by_shards_and_calls(item: tuple[Row, list[Observation]]) -> tuple[bool, int, Row]:
    row, held = item
    return not cuts(row), -len({seen.call for seen in held}), row


def _refutes(seen: Observation, row: Row, like: Observation) -> bool:
    """Is it a call with the same tensors (and dims, if the row cuts any) on which it fails?"""
    for slot in range(len(row)):
        mine, theirs = seen.ndim(slot), like.ndim(slot)
        if mine != theirs and (cuts(row) or None in (mine, theirs)):
            return False
    return seen.holds(row) is False
