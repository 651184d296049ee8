"""What `explain` returns: the decisions, and the forms in which they can be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from ...errors import ShardpropError
from ...support.console import counted
from ...support.picture import Picture
from .json_form import explanation_json
from .model import DecisionExplanation
from .text import decision_text, summary_text
from .words import us_text

__all__ = ["Explanation"]

_WIDTH = 100


class Explanation:
    """Why an op, or every op of a function, was placed as it was.

    Attributes:
        of: What was explained.
        decisions: One for each op that was decided, in the order in which they were.
    """

    def __init__(self, of: str, decisions: Sequence[DecisionExplanation]) -> None:
        self.of = of
        self.decisions = tuple(decisions)

    @property
    def decision(self) -> DecisionExplanation:
        """The only decision.

        Raises:
            ShardpropError: there are several, or none.
        """
        if len(self.decisions) != 1:
            raise ShardpropError(
                f"Expected an explanation of one decision, got one of {len(self.decisions)}: look "
                "at .decisions."
            )
        return self.decisions[0]

    @property
    def error(self) -> str | None:
        """Why the last op has no decision; None where it has one."""
        return self.decisions[-1].error if self.decisions else None

    @property
    def us(self) -> float:
        """Microseconds of all redistributions of operands, as the policy prices them."""
        return sum(decision.total_us for decision in self.decisions)

    def text(self, width: int = _WIDTH, *, every: bool = False) -> str:
        """Plain text.

        Args:
            width: Columns; paragraphs are wrapped, tables are not.
            every: Lay out every decision of a function, not only those that cost something or fail.
        """
        if len(self.decisions) == 1:
            return decision_text(self.decisions[0], width)
        count = len(self.decisions)
        parts = [
            f"{self.of}: {count} decisions, operands moved in {us_text(self.us)}{self._planned()}"
        ]
        if count:
            parts.append(summary_text(self.decisions, every))
        else:
            parts.append("No op on DTensors ran, so there was nothing to decide.")
        parts += [
            f"[{number}] {decision_text(decision, width)}"
            for number, decision in enumerate(self.decisions)
            if every or decision.error or decision.total_us or decision.is_priced_too_low
        ]
        return "\n\n".join(parts)

    def _planned(self) -> str:
        """What the plans that run cost, where prices leave something out."""
        if not any(decision.is_priced_too_low for decision in self.decisions):
            return ""
        return (
            f" by price, {us_text(sum(d.planned_us for d in self.decisions))} by the plans that run"
        )

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        decisions = counted(len(self.decisions), "decision")
        return f"<Explanation of {self.of}: {decisions}, {us_text(self.us)}>"

    def to_json(self) -> dict[str, Any]:
        """Plain values, as schemas/explanation.schema.json describes them; an infinite price is
        ``"inf"``."""
        return explanation_json(self.of, self.decisions, self.error)

    def _repr_html_(self) -> str:
        style = "font-family: monospace; white-space: pre; line-height: 1.35; overflow-x: auto"
        return f'<div style="{style}">{escape(self.text())}</div>'

    def plot(self) -> Picture:
        """The candidates of the only decision by cost, drawn.

        Raises:
            ShardpropError: there are several decisions, or one without candidates.
        """
        from ..report import landscape

        return landscape(self.decision)
