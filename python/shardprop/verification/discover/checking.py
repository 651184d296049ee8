"""A rule put to the validator's own test: strided shards, and rows on several mesh dims at once.

The core fills a placeholder with a strided shard and takes rows together as well, neither of which
the rows of one mesh dim show: an op that works on blocks of a dim holds for shards of whole blocks
and for nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ...errors import ShardpropError
from ...rules.registration import register_rule, temporary_rules
from ..calls.call import Call
from ..settings import Settings
from ..validate.check import check_op
from ..validate.results import Finding
from .evidence import Evidence
from .observation import Observation
from .rows import Row, cuts
from .slots import by_slot

__all__ = ["Checked", "check", "without"]

_STRIDED = re.compile(r"_S\((\d+), \d+\)")
_CELL = re.compile(r"-|\w+(?:\([^)]*\))?")


@dataclass
class Checked:
    """What the check of a rule found.

    Attributes:
        refuted: Rows that are to be claimed no more, by the number of the call that refutes them.
        reasons: What was refuted, with the call and what differed.
        undone: Why the rule was not checked to the end; None if it was.
    """

    refuted: dict[int, set[Row]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    undone: str | None = None


def check(
    evidence: Evidence, given: Sequence[Call], text: str, settings: Settings, deadline: float
) -> Checked:
    """Check a rule on the given calls, as far as they tell anything, until `deadline`."""
    checked = Checked()
    with temporary_rules():
        try:
            register_rule(evidence.op, text, override=True, variants=False)
        except ShardpropError as error:
            checked.undone = str(error)
            return checked
        for number, call in enumerate(evidence.calls):
            if not any(call is one for one in given):
                continue
            report = check_op(evidence.op, [call], settings, deadline)
            if report.error is not None:
                checked.undone = report.error
            seen = next(one for one in evidence.observations if one.call == number)
            wrong = [finding for finding in report.unsound if _refutes(finding, seen)]
            for finding in wrong:
                where = f"{seen.text} on {'x'.join(map(str, finding.mesh))} ranks: {finding.reason}"
                checked.reasons.setdefault(" with ".join(finding.rows), where)
            if wrong:
                checked.refuted[number] = set(_blamed(wrong, seen))
    return checked


def _refutes(finding: Finding, seen: Observation) -> bool:
    """Does it say that the rule is wrong? A call that cannot tell of a row, as one of bools of a
    pending sum, refutes none."""
    rows = [_row(text, seen) for text in finding.rows]
    can_tell = all(row is None or seen.judge(row) is not None for row in rows)
    return can_tell and not _is_for_want_of_elements(finding)


def _is_for_want_of_elements(finding: Finding) -> bool:
    """Does a rank raise that has no elements? The notation cannot always ask for one, and a program
    sees the error: the discovery tells it apart."""
    return finding.raises and "a shard is empty" in finding.reason


def _blamed(findings: Iterable[Finding], seen: Observation) -> Iterator[Row]:
    """The rows to give up: those that fail alone if there are such, as others then may hold."""
    rows = [[_row(text, seen) for text in finding.rows] for finding in findings]
    alone = [one for one in rows if len(set(one)) == 1]
    for together in alone or rows:
        # A shard is worth more than a pending value.
        pending = [row for row in together if row and not cuts(row)]
        yield from (row for row in pending or together if row is not None)


def _row(text: str, seen: Observation) -> Row | None:
    """The row of a finding as the rule has it: with a plain shard for a strided one."""
    cells = _CELL.findall(_STRIDED.sub(r"S(\1)", text).replace("->", ","))
    return by_slot(cells, seen.lengths)


def without(evidence: Evidence, refuted: dict[int, set[Row]]) -> Evidence:
    """The evidence after some rows of some calls were refuted."""
    observations = [
        replace(
            seen,
            rows=seen.rows - refuted.get(seen.call, set()),
            refuted=seen.refuted | refuted.get(seen.call, set()),
        )
        for seen in evidence.observations
    ]
    return replace(evidence, observations=observations)
