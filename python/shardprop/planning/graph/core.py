"""The compiled solver."""

from __future__ import annotations

import math

from ... import _core
from .lowered import Lowered
from .progress import OnProgress

__all__ = ["solve_core"]


def solve_core(
    problem: Lowered,
    time_limit: float = math.inf,
    gap: float = 0.0,
    state: _core.GraphState | None = None,
    progress: OnProgress | None = None,
) -> _core.GraphAnswer:
    """See `_core.solve_graph`.

    Args:
        time_limit: Seconds.
        gap: The relative gap that will do.
        state: What an answer for the same nodes, label counts and edges left.
    """
    graph = _core.GraphProblem(
        problem.unaries,
        problem.tables,
        problem.edges,
        problem.classes,
        problem.groups,
        problem.rows,
    )
    return _core.solve_graph(
        graph, time_limit=time_limit, relative_gap=gap, warm=state, progress=progress
    )
