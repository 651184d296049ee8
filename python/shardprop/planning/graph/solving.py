"""`solve`: what the core is asked, and what is made of its answer."""

from __future__ import annotations

import math
import time
import warnings

import numpy as np

from ...errors import ShardpropError
from .core import solve_core
from .errors import UnsolvedError, fault
from .inputs import bound
from .lowered import lower
from .problem import Problem
from .progress import OnProgress, shown
from .reasons import explained
from .solution import PROVED, Solution, WarmState
from .solution import relative_gap as gap_of

__all__ = ["attempt", "checked_gap", "checked_time_limit", "solve"]

_COUNTS = ("iterations", "fixed", "width", "nodes")


def solve(
    problem: Problem,
    *,
    time_limit: float | None = None,
    relative_gap: float = 0.0,
    warm: Solution | None = None,
    solver: str | None = None,
    progress: bool | OnProgress = False,
) -> Solution:
    """The labels of least cost.

    Deterministic unless the time limit ends it.

    Args:
        time_limit: Seconds of wall time; none if not given. When it is over, the best labels so far
            are returned with the bound so far.
        relative_gap: Labels will do that are proved to cost more than the best by at most this part
            of their own cost.
        warm: The solution of a problem with the same nodes and edges and other constraints or
            costs; it saves time and does not change what is optimal. Ignored where it does not fit.
        solver: Deprecated. There is one solver, the compiled core; "highs" is refused.
        progress: True for a line on stderr, or a function (seconds, iteration, lower bound,
            objective), called at most about ten times a second.

    Raises:
        InfeasibleError: no labels meet all constraints; with the smallest set of reasons found.
        UnsolvedError: the time was over before any labels were found.
        ShardpropError: an argument makes no sense.
    """
    found = attempt(
        problem,
        time_limit=time_limit,
        relative_gap=relative_gap,
        warm=warm,
        solver=solver,
        progress=progress,
    )
    if found is None:
        raise explained(problem)
    return found


def attempt(
    problem: Problem,
    *,
    time_limit: float | None,
    relative_gap: float,
    warm: Solution | None,
    solver: str | None = None,
    progress: bool | OnProgress = False,
) -> Solution | None:
    """As `solve`; None where no labels meet all constraints, of which it takes long to find which
    are to blame."""
    began = time.monotonic()
    limit = _checked(problem, time_limit, relative_gap, warm, solver)
    lowered = lower(problem)
    known = None if warm is None else warm.state
    state = known.core if known is not None and known.problem.same_shape(lowered) else None
    with shown(progress) as on_progress:
        left = max(0.0, began + limit - time.monotonic())
        found = solve_core(lowered, left, relative_gap, state, on_progress)
    if found.status == "infeasible":
        return None
    labels = None if found.labels is None else np.asarray(found.labels, dtype=np.int32)
    evaluation = None if labels is None else problem.check(labels)
    # The core's labels could break a row of ours by rounding in its test of the row, at the most.
    if labels is None or evaluation is None or not evaluation.feasible:
        raise UnsolvedError(
            f"Expected labels that meet all constraints within {limit:g} s, got none: the lower "
            f"bound is {found.lower_bound:.10g}.",
            found.lower_bound,
        )
    labels.setflags(write=False)
    objective = evaluation.objective
    return Solution(
        labels,
        objective,
        min(found.lower_bound, objective),
        found.proved and gap_of(objective, found.lower_bound) <= PROVED,
        time.monotonic() - began,
        {name: getattr(found, name) for name in _COUNTS},
        WarmState(found.state, lowered),
        tuple(problem.nodes),
    )


def checked_time_limit(given: float | None) -> float:
    """Seconds; infinite for None.

    Raises:
        ShardpropError: it is no number above 0.
    """
    limit = math.inf if given is None else bound("solve", "time_limit", given)
    if limit <= 0:
        raise fault("solve, time_limit", "more than 0 seconds", f"{limit:g}")
    return limit


def checked_gap(given: float) -> float:
    """A relative gap.

    Raises:
        ShardpropError: it is no finite number of at least 0.
    """
    gap = bound("solve", "relative_gap", given)
    if not 0 <= gap < math.inf:
        raise fault("solve, relative_gap", "at least 0", f"{gap:g}")
    return gap


def _checked(
    problem: Problem,
    time_limit: float | None,
    gap: float,
    warm: Solution | None,
    solver: str | None,
) -> float:
    """The time limit in seconds."""
    if not isinstance(problem, Problem):
        raise fault("solve", "a Problem", type(problem).__name__)
    limit = checked_time_limit(time_limit)
    checked_gap(gap)
    if warm is not None and not isinstance(warm, Solution):
        raise fault("solve, warm", "a Solution", type(warm).__name__)
    if solver == "highs":
        raise ShardpropError(
            "solve, solver: HiGHS is no longer part of shardprop. Leave the argument out for the "
            "core, or give problem.to_arrays() to a solver of your own and its labels to "
            "problem.check()."
        )
    if solver not in (None, "auto", "core"):
        raise fault("solve, solver", "no solver, as there is only the core", repr(solver))
    if solver is not None:
        text = "solve, solver: there is only the core; leave the argument out"
        warnings.warn(text, DeprecationWarning, stacklevel=3)
    return limit
