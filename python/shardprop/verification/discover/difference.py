"""A discovered rule beside the one that is there: the rows that only one of them has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import ShardpropError
from ...rules.notation.rule_text import Notation
from ..calls.call import Call
from ..settings import Settings
from ..simulator.execution import Executable
from ..simulator.simulation import varied
from ..validate.claimed_rows import Claimant, kind_of_rule
from .evidence import Evidence
from .observation import Observation
from .results import Difference
from .row_trials import combinations
from .rows import Row, implies
from .verify import claimed_rows, slot_rows

__all__ = ["differences"]

_SETTINGS = Settings(strided_factors=())


def differences(evidence: Evidence, text: str) -> tuple[str, list[Difference]]:
    """The kind of the rule that decides the op now, and what it and `text` do not share.

    A row counts as shared where the other rule has one that implies it. Rows that the call cannot
    tell anything about, as of a dim of size 1, are left out.
    """
    kind = kind_of_rule(evidence.op, "active")
    notation = Notation(text)
    only: dict[tuple[str, Row], list[Observation]] = {}
    for seen in evidence.observations:
        try:
            ours = claimed_rows(notation, evidence.calls[seen.call], seen)
        except ShardpropError:  # a call that the rule does not fit, as the discovery tells
            continue
        theirs = slot_rows(_active_rows(evidence.calls[seen.call], seen.ranks), seen)
        for name, mine, other in (("discovered", ours, theirs), (kind, theirs, ours)):
            for row in mine:
                shared = any(implies(have, row, seen.operands) for have in other)
                if not shared and seen.holds(row) is not None:
                    only.setdefault((name, row), []).append(seen)
    found = [_difference(row, name, calls) for (name, row), calls in only.items()]
    return kind, sorted(found, key=lambda one: (one.only_in != "discovered", -one.calls, one.row))


def _difference(row: Row, only_in: str, seen: Sequence[Observation]) -> Difference:
    """An example on which the row does not hold, if there is one."""
    failing = [one for one in seen if one.holds(row) is False]
    example = (failing or seen)[0]
    calls = len({one.call for one in seen})
    return Difference(example.show(row), only_in, calls, example.text, not failing)


def _active_rows(call: Call, ranks: int) -> list[Sequence[Any]]:
    """The rows of the rule that decides the op, outputs first; none if it raises."""
    executable = Executable(call)
    try:
        claimant = Claimant(executable, varied(executable)[0].expected, _SETTINGS)
        claims = claimant.claims(ranks, combinations(executable, ranks))
    except Exception:  # a rule that refuses the call claims nothing of it
        return []
    return [(*row.outputs, *row.inputs) for row in claims.rows]
