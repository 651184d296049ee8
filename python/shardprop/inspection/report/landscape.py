"""The cost landscape of a decision: what each strategy would have cost, operand by operand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import ShardpropError
from ...support.picture import Picture
from ..words import placements_text, us_text
from .colours import OPERANDS
from .svg import Sheet

if TYPE_CHECKING:
    from ..explanation.model import Candidate, DecisionExplanation

__all__ = ["landscape"]

# Of the bars: how long the longest is, how high a row is, and where the first is.
_LONGEST, _ROW, _TOP = 400, 34, 72
_TICKS = 6


def landscape(explanation: DecisionExplanation) -> Picture:
    """The candidates of a decision by cost: bars of microseconds, stacked by operand.

    The winner is marked, and so are those that cost the same.

    Args:
        explanation: Of one decision.

    Raises:
        ShardpropError: the decision has no candidates, as where it is an error.
    """
    candidates = sorted(explanation.candidates, key=lambda each: each.place)
    if not candidates:
        raise ShardpropError(
            f"{explanation.op}: Expected a decision with candidates to draw, got none."
        )
    title = f"{explanation.op}: {explanation.reason}"
    labels = [_strategy(each) for each in candidates]
    left = 24 + 7.3 * max(map(len, labels))
    bottom = _TOP + _ROW * len(candidates)
    page = max(left + _LONGEST + 150, 9.2 * len(title) + 20)
    on = Sheet(page, bottom + 72, f"{title}: candidates by cost")
    on.text(12, 20, title, 15, text_anchor="start")
    longest = max((c.us for c in candidates if math.isfinite(c.us)), default=0.0) or 1.0
    on.add("rect", x=left, y=_TOP, width=page - left - 12, height=_ROW, fill="#f0f3f6")
    for row, (candidate, label) in enumerate(zip(candidates, labels, strict=True)):
        y = _TOP + row * _ROW
        weight = "normal" if row else "bold"
        on.monospaced(left - 8, y + _ROW / 2, label, 12, text_anchor="end", font_weight=weight)
        _bar(on, candidate, left, y + 6, _LONGEST / longest)
        end = left + _LONGEST * (candidate.us / longest if math.isfinite(candidate.us) else 1)
        price = _price(row, candidate, candidates[0])
        on.text(end + 7, y + _ROW / 2, price, 11.5, text_anchor="start", font_weight=weight)
    _legend(on, explanation, candidates, left)
    _axis(on, longest, left, bottom, page)
    more = explanation.considered - len(candidates)
    if more > 0:
        on.text(left + _LONGEST / 2, bottom + 58, f"{more} more strategies are not shown", 11.5)
    return on.picture()


def _bar(on: Sheet, candidate: Candidate, left: float, y: float, scale: float) -> None:
    height = _ROW - 12
    if not math.isfinite(candidate.us):
        on.boxes([(left, y, _LONGEST, height)], class_="frame", fill="none", stroke="#8a8f98")
        on.stripes((left, y, _LONGEST, height))
        return
    for index, us in enumerate(candidate.operand_us):
        if us:
            box = (left, y, us * scale, height)
            on.boxes([box], class_="bar", fill=_colour(index), stroke="#fff")
            if index >= len(OPERANDS):
                on.stripes(box)
        left += us * scale


def _colour(index: int) -> str:
    return OPERANDS[index % len(OPERANDS)]


def _price(row: int, candidate: Candidate, winner: Candidate) -> str:
    """The sum behind a bar; and who won, and who costs the same."""
    text = us_text(candidate.us)
    if row == 0:
        return f"{text} ◀ chosen"
    return f"{text} = same cost" if candidate.us == winner.us else text


def _legend(
    on: Sheet, explanation: DecisionExplanation, candidates: Sequence[Candidate], left: float
) -> None:
    """The operands that anywhere cost something."""
    priced = [each.operand_us for each in candidates if math.isfinite(each.us)]
    for index, operand in enumerate(explanation.operands):
        if any(us[index] for us in priced):
            on.boxes([(left, 44, 12, 12)], class_="swatch", fill=_colour(index))
            on.text(left + 18, 50, operand.name, 11.5, text_anchor="start")
            left += 36 + 7.5 * len(operand.name)


def _axis(on: Sheet, longest: float, left: float, y: float, page: float) -> None:
    """Microseconds under the bars."""
    on.add("path", d=f"M{left:.1f} {y}H{page - 12:.1f}", stroke="currentColor")
    step = 10 ** math.floor(math.log10(longest / _TICKS))
    step *= next(factor for factor in (1, 2, 5, 10) if longest / (factor * step) <= _TICKS)
    for number in range(int(longest / step * (1 + 1e-9)) + 1):
        x = left + _LONGEST * number * step / longest
        on.add("path", d=f"M{x:.1f} {y}v5", stroke="currentColor")
        on.text(x, y + 15, us_text(number * step), 10)
    on.text(left + _LONGEST / 2, y + 38, "modelled cost of redistributing the operands", 11.5)


def _strategy(candidate: Candidate) -> str:
    """``S(0)R, RR → S(0)R``."""
    operands = ", ".join(map(placements_text, candidate.operands))
    return f"{operands} → {', '.join(map(placements_text, candidate.outputs))}"
