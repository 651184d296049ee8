"""The compiled solver."""

from __future__ import annotations

import math

import numpy as np

from ... import _core
from .answer import Answer, OnProgress
from .lowered import Lowered

__all__ = ["solve_core"]

_COUNTS = ("iterations", "fixed", "width", "nodes")


def solve_core(
    problem: Lowered,
    time_limit: float = math.inf,
    gap: float = 0.0,
    state: _core.GraphState | None = None,
    progress: OnProgress | None = None,
) -> Answer:
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
    found = _core.solve_graph(
        graph, time_limit=time_limit, relative_gap=gap, warm=state, progress=progress
    )
    labels = None if found.labels is None else np.asarray(found.labels, dtype=np.int32)
    stats: dict[str, int | float | str] = {name: getattr(found, name) for name in _COUNTS}
    return Answer(
        labels,
        math.inf if labels is None else found.objective,
        found.lower_bound,
        found.proved,
        found.status == "infeasible",
        found.state,
        stats,
    )
