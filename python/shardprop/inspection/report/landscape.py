"""The cost landscape of a decision: what each strategy would have cost, operand by operand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ..._torch import Placement
from ...errors import ShardpropError
from .canvas import new_axes
from .colours import INK, OPERANDS
from .words import us_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Explained", "landscape"]


class _Operand(Protocol):
    @property
    def name(self) -> str: ...


class _Candidate(Protocol):
    @property
    def place(self) -> int: ...
    @property
    def outputs(self) -> tuple[tuple[Placement, ...] | None, ...]: ...
    @property
    def operands(self) -> tuple[tuple[Placement, ...], ...]: ...
    @property
    def operand_us(self) -> tuple[float, ...]: ...
    @property
    def us(self) -> float: ...


class Explained(Protocol):
    """What is drawn of the explanation of a decision."""

    @property
    def op(self) -> str: ...
    @property
    def operands(self) -> Sequence[_Operand]: ...
    @property
    def candidates(self) -> Sequence[_Candidate]: ...
    @property
    def considered(self) -> int: ...
    @property
    def reason(self) -> str: ...


def landscape(explanation: Explained, *, ax: Axes | None = None) -> Axes:
    """The candidates of a decision by cost: bars of microseconds, stacked by operand.

    The winner is marked, and so are those that cost the same.

    Args:
        explanation: Of one decision.
        ax: Where to draw; None: in a new figure.

    Raises:
        ShardpropError: matplotlib is not installed, or the decision has no candidates, as where it
            is an error.
    """
    candidates = sorted(explanation.candidates, key=lambda each: each.place)
    if not candidates:
        raise ShardpropError(
            f"{explanation.op}: Expected a decision with candidates to draw, got none."
        )
    labels = [_strategy(each) for each in candidates]
    widest = max(map(len, labels))
    ax = new_axes(ax, 5.2 + 0.075 * widest, 1.5 + 0.36 * len(candidates))
    longest = max((c.us for c in candidates if math.isfinite(c.us)), default=0.0)
    scale, unit = _unit(longest)
    _bars(ax, explanation, candidates, longest, scale)
    _prices(ax, candidates, longest, scale)
    _dress(ax, explanation, candidates, labels, unit)
    return ax


def _bars(
    ax: Axes,
    explanation: Explained,
    candidates: Sequence[_Candidate],
    longest: float,
    scale: float,
) -> None:
    for index, operand in enumerate(explanation.operands):
        parts = [_part(c, index) for c in candidates]
        before = [sum(_part(c, i) for i in range(index)) for c in candidates]
        if not any(parts):
            continue  # no place in the legend for what nowhere costs anything
        ax.barh(
            range(len(candidates)),
            [part * scale for part in parts],
            left=[start * scale for start in before],
            height=0.62,
            color=OPERANDS[index % len(OPERANDS)],
            edgecolor="white",
            hatch="" if index < len(OPERANDS) else "///",
            label=operand.name,
        )
    impossible = [row for row, c in enumerate(candidates) if not math.isfinite(c.us)]
    ax.barh(
        impossible,
        [(longest or 1.0) * scale] * len(impossible),
        height=0.62,
        facecolor="none",
        edgecolor="#8a8f98",
        hatch="xx",
    )


def _part(candidate: _Candidate, index: int) -> float:
    """What one operand costs; nothing of a strategy that is impossible."""
    return candidate.operand_us[index] if math.isfinite(candidate.us) else 0.0


def _prices(ax: Axes, candidates: Sequence[_Candidate], longest: float, scale: float) -> None:
    """The sum behind each bar; and who won, and who costs the same."""
    least = candidates[0].us
    for row, candidate in enumerate(candidates):
        text = us_text(candidate.us)
        if row == 0:
            text += "  ◀ chosen"
        elif candidate.us == least:
            text += "  = same cost"
        end = candidate.us if math.isfinite(candidate.us) else longest or 1.0
        ax.annotate(
            text,
            (end * scale, row),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            fontweight="normal" if row else "bold",
            color=INK,
        )


def _dress(
    ax: Axes,
    explanation: Explained,
    candidates: Sequence[_Candidate],
    labels: Sequence[str],
    unit: str,
) -> None:
    ax.set_yticks(range(len(candidates)), labels, fontsize=8.5, family="monospace")
    ax.get_yticklabels()[0].set_fontweight("bold")
    ax.set_ylim(len(candidates) - 0.4, -0.6)
    ax.axhspan(-0.45, 0.45, color="#f0f3f6", zorder=-1)
    ax.set_xlim(0, None if any(_priced(candidates)) else 1)
    # Room behind the longest bar for its price.
    ax.set_xlim(0, ax.get_xlim()[1] * 1.25)
    left_out = explanation.considered - len(candidates)
    more = f"\n{left_out} more strategies are not shown" if left_out > 0 else ""
    ax.set_xlabel(f"modelled cost of redistributing the operands ({unit}){more}", fontsize=9)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=8)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.set_title(
        f"{explanation.op}: {explanation.reason}", fontsize=11, loc="left", pad=10, parse_math=False
    )
    handles, _ = ax.get_legend_handles_labels()
    if handles:
        ax.legend(
            loc="upper left",
            bbox_to_anchor=(1.01, 1),
            borderaxespad=0,
            frameon=False,
            fontsize=8.5,
            title="operand",
            title_fontsize=8.5,
            alignment="left",
        )


def _priced(candidates: Sequence[_Candidate]) -> list[bool]:
    return [0 < candidate.us < math.inf for candidate in candidates]


def _unit(longest: float) -> tuple[float, str]:
    """What to multiply microseconds with for the axis, and its unit."""
    return (1.0, "us") if longest < 10_000 else (1e-3, "ms")


def _strategy(candidate: _Candidate) -> str:
    """``S(0)R, RR → S(0)R``."""
    operands = ", ".join(map(_placements, candidate.operands))
    return f"{operands} → {', '.join(map(_placements, candidate.outputs))}"


def _placements(placements: tuple[Placement, ...] | None) -> str:
    return "none" if placements is None else "".join(map(str, placements)) or "-"
