"""A discovered rule beside the one that is there: the rows that only one of them has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..validate.calls import Call
from ..validate.claims import Claimant, kind_of_rule
from ..validate.execution import Executable
from ..validate.results import Settings
from ..validate.simulation import varied
from .compiled import rows_of_text
from .evidence import Evidence
from .observation import Observation
from .results import Difference
from .rows import Row, implies
from .trying import combinations
from .verify import claimed_rows, slot_rows

__all__ = ["differences"]

_SETTINGS = Settings(strided_factors=())


def differences(evidence: Evidence, text: str) -> tuple[str, list[Difference]]:
    """The kind of the rule that decides the op now, and what it and `text` do not share.

    A row counts as shared where the other rule has one that implies it.
    """
    kind = kind_of_rule(evidence.op, "active")
    compiler = rows_of_text(text)
    only: dict[tuple[str, Row], list[Observation]] = {}
    for seen in evidence.observations:
        call = evidence.calls[seen.call]
        ours = claimed_rows(compiler, call, seen)
        theirs = slot_rows(_active_rows(call, seen.ranks), seen)
        for name, mine, other in (("discovered", ours, theirs), (kind, theirs, ours)):
            for row in mine:
                if not any(implies(have, row, seen.operands) for have in other):
                    only.setdefault((name, row), []).append(seen)
    found = [
        Difference(
            seen[0].show(row), name, len({s.call for s in seen}), seen[0].text, seen[0].holds(row)
        )
        for (name, row), seen in only.items()
    ]
    return kind, sorted(found, key=lambda one: (one.only_in != "discovered", -one.calls, one.row))


def _active_rows(call: Call, ranks: int) -> list[Sequence[Any]]:
    """The rows of the rule that decides the op, outputs first; none if it raises."""
    executable = Executable(call)
    try:
        claimant = Claimant(executable, varied(executable)[0].expected, _SETTINGS)
        claims = claimant.claims(ranks, combinations(executable, ranks))
    except Exception:  # a rule that refuses the call claims nothing of it
        return []
    return [(*row.outputs, *row.inputs) for row in claims.rows]
