"""Why the winner won: torch's order of preference, named."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..._torch import DTensorSpec
from ..words import named_dim
from .model import Candidate
from .words import us_text

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
        outputs_us: What the winner's outputs were weighed with; None where outputs do not count.
    """

    candidates: Sequence[Candidate]
    valid: int
    ties: int | None
    operands: Sequence[DTensorSpec]
    dim_names: Sequence[str]
    prefers_still: bool = True
    outputs_us: float | None = None


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
    name = f"The winner{_rows(winner, field.dim_names)}"
    cost = us_text(winner.us) if winner.us else "nothing"
    if field.valid == 1:
        return "only strategy", f"{name} is the only valid strategy; it costs {cost}."
    if field.outputs_us is not None:
        return "least cost", (
            f"{name} costs {cost}, plus {us_text(field.outputs_us)} that its outputs cost later: "
            f"none of {field.valid} valid strategies costs less together."
        )
    if winner.us < 0:
        return "negative cost", f"{name} has a cost below 0 ({cost}), which comes first."
    if field.prefers_still and winner.us == 0 and stays(winner, field.operands):
        return "redistributes nothing", (
            f"{name} redistributes nothing; where several strategies do that, the last of them in "
            "torch's order is taken."
        )
    tied = _tied(field)
    if winner.us == 0:
        first = f", as do {tied} strategies: the first in torch's order is taken" * (tied > 1)
        return "costs nothing", f"{name} costs nothing{first}."
    if math.isinf(winner.us):
        return "first of equal cost", (
            f"None of {field.valid} valid strategies has a finite price, and the first in torch's "
            f"order is taken{_rows(winner, field.dim_names)}."
        )
    least = f"{name} costs {cost}, the least of {field.valid} valid strategies"
    if tied > 1:
        return "first of equal cost", (
            f"{least}; {tied} cost as much, and the first in torch's order is taken."
        )
    return "least cost", f"{least}."


def _tied(field: Field) -> int:
    if field.ties is not None:
        return field.ties
    least = field.candidates[0].us
    return sum(candidate.us == least for candidate in field.candidates)


def _runner_up(field: Field) -> str:
    if len(field.candidates) < 2 or math.isinf(field.candidates[0].us):
        return ""
    if field.outputs_us is not None:  # the prices at hand leave out what it was weighed by
        return ""
    winner, second = field.candidates[:2]
    name = f"The runner-up{_rows(second, field.dim_names)}"
    if second.us == winner.us:
        return f"{name} costs the same{_next_dearer(field)}."
    if math.isinf(second.us):
        return f"{name} has no finite price."
    return f"{name} costs {_difference(second, winner)} more."


def _next_dearer(field: Field) -> str:
    least = field.candidates[0].us
    dearer = next((c for c in field.candidates if least < c.us < math.inf), None)
    if dearer is None:
        return ""
    return (
        f"; the next dearer{_rows(dearer, field.dim_names)} costs "
        f"{_difference(dearer, field.candidates[0])} more"
    )


def _difference(dearer: Candidate, cheaper: Candidate) -> str:
    """The least of differences decides, one of the last bits, too."""
    text = us_text(dearer.us - cheaper.us)
    return "less than 0.1 us" if text in ("0.0 us", "-0.0 us") else text


def _rows(candidate: Candidate, dim_names: Sequence[str]) -> str:
    if candidate.rows is None:
        return ""
    rows = [
        f"row {row} on {named_dim(dim)}" for row, dim in zip(candidate.rows, dim_names, strict=True)
    ]
    return f" ({', '.join(rows)})"
