"""The answer for a problem."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from ... import _core
from .inputs import Ints
from .lowered import Lowered
from .parts import Node

__all__ = ["PROVED", "Solution", "WarmState", "relative_gap"]

# A gap below this is what rounding alone may leave.
PROVED = 1e-9


def relative_gap(objective: float, lower_bound: float) -> float:
    """How much lower another objective might be, as a part of this one (of 1, if that is more)."""
    if math.isinf(objective) or math.isinf(lower_bound):
        return 0.0 if objective == lower_bound else math.inf
    return max(0.0, (objective - lower_bound) / max(1.0, abs(objective)))


@dataclass(frozen=True, eq=False)
class WarmState:
    """What the core knows after a solve, and of which nodes, tables and edges."""

    core: _core.GraphState
    problem: Lowered


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """Labels that meet all constraints, and what is proved of them.

    Attributes:
        labels: int32 [N], by node.
        objective: What they cost, in the unit of the costs, evaluated from the problem's data.
        lower_bound: No labels cost less.
        gap: (objective - lower_bound) / max(1, |objective|), at least 0.
        proved: The labels are optimal, up to 1e-9 of the objective for rounding.
        status: "optimal" if proved, else "feasible".
        seconds: Wall time of the call.
        stats: What the solver counts, by name.
        state: For ``solve(..., warm=solution)``; None where nothing was solved.
    """

    labels: Ints
    objective: float
    lower_bound: float
    proved: bool
    seconds: float
    stats: Mapping[str, int]
    state: WarmState | None
    _nodes: tuple[Node, ...]

    def __repr__(self) -> str:
        return (
            f"Solution(objective={self.objective:.10g}, gap={self.gap:.2g}, proved={self.proved}, "
            f"seconds={self.seconds:.3g}, nodes={len(self.labels)})"
        )

    @property
    def gap(self) -> float:
        return relative_gap(self.objective, self.lower_bound)

    @property
    def status(self) -> str:
        return "optimal" if self.proved else "feasible"

    @property
    def solver(self) -> str:
        """Deprecated: always "core"."""
        text = "Solution.solver is deprecated: there is only the core"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return "core"

    def label_names(self) -> dict[str, str]:
        """By node name, the name of its label (its index, where labels have no names)."""
        names = {}
        for node, label in zip(self._nodes, self.labels.tolist(), strict=True):
            names[node.name] = str(label) if node.labels is None else node.labels[label]
        return names
