"""The last word: the rows that a text stands for, against the rows that were seen to hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ... import _torch
from ..._torch import Shard
from ...rules.notation.rule_text import Notation
from ..calls.call import Call
from ..simulator.ranks import local_shapes
from ..validate.claimed_rows import as_meta, is_enough
from .evidence import Evidence
from .observation import Observation
from .rows import Row, cuts, essential, implies
from .slots import as_returns, row_of

__all__ = ["Verdict", "claimed_rows", "compare", "slot_rows"]


@dataclass
class Verdict:
    """How the rows of a rule compare with what was seen.

    Attributes:
        unsound: Rows that the rule has and that do not hold, each with a call.
        missing: Rows that hold and that the rule has not, each with the calls they hold on.
        empty: Rows that the rule has and that do not hold where a rank has no elements.
        matched: Rows with shards that both have, over all calls.
        unfit: The calls that the rule raises for, by number.
    """

    unsound: list[tuple[Row, Observation]] = field(default_factory=list)
    missing: dict[Row, list[Observation]] = field(default_factory=dict)
    empty: dict[Row, Observation] = field(default_factory=dict)
    matched: int = 0
    unfit: set[int] = field(default_factory=set)


def compare(evidence: Evidence, text: str) -> Verdict:
    """Compare on every call and every number of ranks."""
    notation = Notation(text)
    verdict = Verdict()
    for seen in evidence.observations:
        try:
            claimed = claimed_rows(notation, evidence.calls[seen.call], seen)
        except Exception:  # the notation, or the code of an op, says what it does not take
            verdict.unfit.add(seen.call)
            continue
        for row in sorted(claimed):
            if seen.holds(row) is False:
                verdict.unsound.append((row, seen))
            elif row not in seen.rows and seen.leaves_empty(row) and seen.judge(row) is False:
                verdict.empty.setdefault(row, seen)
            elif row in seen.rows and cuts(row):
                verdict.matched += 1
        for row in sorted(seen.rows):
            if not any(implies(have, row, seen.operands) for have in claimed):
                verdict.missing.setdefault(row, []).append(seen)
    return verdict


def claimed_rows(notation: Notation, call: Call, seen: Observation) -> frozenset[Row]:
    """The rows that the notation compiles a rule to for a call, as the observation writes them.

    Raises:
        Exception: what the notation raises where the rule does not fit the call.
    """
    made = as_returns(call.op, call.op(*call.args, **call.kwargs))
    asked = call.with_arguments(as_meta)
    rows = notation.rows(call.op, asked.args, asked.kwargs, outputs=list(map(as_meta, made)))
    return slot_rows(rows, seen)


def slot_rows(rows: Iterable[Sequence[Any]], seen: Observation) -> frozenset[Row]:
    """Rows (outputs first) by slot, without those whose asks the sizes of the call do not meet."""
    operands = sum(map(len, seen.shapes[: seen.operands]))
    shapes = [shape for slot in seen.shapes for shape in slot]
    found: list[Row] = []
    for row in rows:
        outputs = len(row) - operands
        placements = [*row[outputs:], *row[:outputs]]
        slots = row_of(placements, seen.lengths)
        if slots is not None and all(
            _is_met(p, s, seen.ranks) for p, s in zip(placements, shapes, strict=True)
        ):
            found.append(slots)
    return essential(found, seen.operands)


def _is_met(placement: Any, shape: Sequence[int], ranks: int) -> bool:
    """Do the shards satisfy what a placeholder asks of them?"""
    if not isinstance(placement, _torch.ShardingPlaceholder):
        return True
    local = [held[placement.dim] for held in local_shapes(shape, [Shard(placement.dim)], [ranks])]
    # torch takes 4 elements on 3 ranks, of which one has none.
    asks = getattr(placement, "is_constrained", False)
    return shape[placement.dim] >= ranks and (not asks or is_enough(local, placement))
