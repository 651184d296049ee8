"""Why the winner won: torch's order of preference, named."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .._torch import DTensorSpec
from .model import Candidate
from .words import listed, us_text

__all__ = ["Field", "reason_for", "stays"]


class Field(NamedTuple):
    """Those that the winner won against.

    Attributes:
        candidates: The cheapest, the winner first.
        valid: How many there are in all.
        ties: How many cost as little as the winner, it among them; None if that is not known.
        operands: Where the positional operands are.
        dim_names: Names of the mesh dims.
        prefers_still: Does a strategy that redistributes nothing come first? Not for an element of
            a list op, which torch decides by cost alone.
    """

    candidates: Sequence[Candidate]
    valid: int
    ties: int | None
    operands: Sequence[DTensorSpec]
    dim_names: Sequence[str]
    prefers_still: bool = True


def stays(candidate: Candidate, operands: Sequence[DTensorSpec]) -> bool:
    """Does every positional operand keep its placements? torch looks at no shard order here."""
    wanted = candidate.operands[: len(operands)]
    return all(spec.placements == p for spec, p in zip(operands, wanted, strict=True))


def reason_for(field: Field) -> tuple[str, str]:
    """The tie-break by its short name, and a sentence."""
    key, sentence = _won(field)
    following = _runner_up(field)
    return key, f"{sentence} {following}" if following else sentence


def _won(field: Field) -> tuple[str, str]:
    winner = field.candidates[0]
    name = _name(winner, field.dim_names)
    name = name[0].upper() + name[1:]
    if field.valid == 1:
        return "only strategy", f"{name}, is the only valid strategy; it costs {_us(winner)}."
    if winner.us < 0:
        return "negative cost", f"{name}, has a cost below 0 ({_us(winner)}), which comes first."
    if field.prefers_still and winner.us == 0 and stays(winner, field.operands):
        return "redistributes nothing", (
            f"{name}, redistributes nothing; where several strategies do that, the last of them in "
            "torch's order is taken."
        )
    tied = _tied(field)
    if winner.us == 0:
        first = f"; of the {tied} that do, the first is taken" if tied > 1 else ""
        return "costs nothing", f"{name}, costs nothing{first}."
    if tied > 1:
        many = "no strategy has a finite price" if math.isinf(winner.us) else f"{tied} cost as much"
        return "first of equal cost", (
            f"{name}, costs {_us(winner)}, the least of {field.valid} valid strategies; {many}, "
            "and the first in torch's order is taken."
        )
    return "least cost", (
        f"{name}, costs {_us(winner)}, the least of {field.valid} valid strategies."
    )


def _tied(field: Field) -> int:
    if field.ties is not None:
        return field.ties
    least = field.candidates[0].us
    return sum(candidate.us == least for candidate in field.candidates)


def _runner_up(field: Field) -> str:
    if len(field.candidates) < 2:
        return ""
    winner, second = field.candidates[:2]
    name = _name(second, field.dim_names)
    if second.us == winner.us:
        return f"The runner-up, {name}, costs the same."
    if math.isinf(second.us):
        return f"The runner-up, {name}, has no finite price."
    return f"The runner-up, {name}, costs {us_text(second.us - winner.us)} more."


def _us(candidate: Candidate) -> str:
    return us_text(candidate.us)


def _name(candidate: Candidate, dim_names: Sequence[str]) -> str:
    if candidate.rows is None:
        return f"candidate {candidate.place}"
    rows = [f"row {row} on {dim}" for row, dim in zip(candidate.rows, dim_names, strict=True)]
    return listed(rows)
