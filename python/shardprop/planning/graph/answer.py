"""What the solver answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ... import _core
from .inputs import Ints

__all__ = ["PROVED", "Answer", "OnProgress", "relative_gap"]

# seconds, iteration, lower bound, best objective so far (inf: none)
OnProgress = Callable[[float, int, float, float], None]

# A gap below this is what rounding alone may leave.
PROVED = 1e-9


@dataclass(frozen=True, eq=False)
class Answer:
    """Labels, as the solver found them.

    Attributes:
        labels: [N], or None if none were found.
        objective: Of the labels; inf without.
        lower_bound: No labels have a lower objective.
        infeasible: It is proved that no labels meet all constraints.
        state: For a warm start.
    """

    labels: Ints | None
    objective: float
    lower_bound: float
    proved: bool = False
    infeasible: bool = False
    state: _core.GraphState | None = None
    stats: Mapping[str, int | float | str] = field(default_factory=dict)


def relative_gap(objective: float, lower_bound: float) -> float:
    """How much lower another objective might be, as a part of this one (of 1, if that is more)."""
    if math.isinf(objective) or math.isinf(lower_bound):
        return 0.0 if objective == lower_bound else math.inf
    return max(0.0, (objective - lower_bound) / max(1.0, abs(objective)))
