"""`solve`: which solver, for how long, and what is made of the answers."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Literal, get_args

from .answer import PROVED, Answer, OnProgress
from .answer import relative_gap as gap_of
from .core import solve_core
from .errors import UnsolvedError, fault
from .inputs import bound
from .lowered import Lowered, lower
from .milp import is_installed, solve_milp
from .problem import Problem
from .program import ProgramTooLargeError
from .progress import shown
from .reasons import explained
from .solution import Solution, WarmState

__all__ = ["SolverName", "solve"]

SolverName = Literal["auto", "core", "highs"]

# Of a time limit, the part that the core gets where HiGHS can go on after it.
_CORE_SHARE = 0.5


def solve(
    problem: Problem,
    *,
    time_limit: float | None = None,
    relative_gap: float = 0.0,
    warm: Solution | None = None,
    solver: SolverName = "auto",
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
        solver: "core" (compiled in), "highs" (needs ``pip install 'shardprop[milp]'``), or "auto":
            the core, and if it can prove nothing in time, HiGHS where it is installed, which gets
            what is left of the time limit: at least half.
        progress: True for a line on stderr, or a function (seconds, iteration, lower bound,
            objective), called at most about ten times a second.

    Raises:
        InfeasibleError: no labels meet all constraints; with the smallest set of reasons found.
        UnsolvedError: the time was over before any labels were found.
        ShardpropError: an argument makes no sense, or HiGHS is asked for and not installed, or
            its program would not fit into memory.
    """
    began = time.monotonic()
    limit = _checked(problem, time_limit, relative_gap, warm, solver)
    lowered = lower(problem)
    with shown(progress) as on_progress:
        answer = _Run(problem, lowered, began, limit, relative_gap, on_progress).by(solver, warm)
    if answer.infeasible:
        raise explained(problem)
    if answer.labels is None:
        raise UnsolvedError(
            f"Expected labels that meet all constraints within {limit:g} s, got none: the lower "
            f"bound is {answer.lower_bound:.10g}.",
            answer.lower_bound,
        )
    answer.labels.setflags(write=False)
    return Solution(
        answer.labels,
        answer.objective,
        min(answer.lower_bound, answer.objective),
        answer.proved,
        time.monotonic() - began,
        answer.solver,
        answer.stats,
        None if answer.state is None else WarmState(answer.state, lowered),
        tuple(problem.nodes),
    )


class _Run:
    """One solve, on its way through one solver or two."""

    def __init__(
        self,
        problem: Problem,
        lowered: Lowered,
        began: float,
        limit: float,
        gap: float,
        progress: OnProgress | None,
    ) -> None:
        self._problem = problem
        self._lowered = lowered
        self._end = began + limit
        self._gap = gap
        self._progress = progress

    def by(self, solver: SolverName, warm: Solution | None) -> Answer:
        if solver == "highs":
            return self._milp(warm, None)
        goes_on = solver == "auto" and is_installed()
        answer = self._core(warm, _CORE_SHARE if goes_on else 1.0)
        done = answer.proved or answer.infeasible
        if done or not goes_on or gap_of(answer.objective, answer.lower_bound) <= self._gap:
            return answer
        try:
            return _better(answer, self._milp(warm, answer))
        except ProgramTooLargeError as error:
            return replace(answer, stats={**answer.stats, "milp_status": str(error)})

    def _left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def _core(self, warm: Solution | None, share: float) -> Answer:
        state = None
        if warm is not None and warm.state is not None:
            state = warm.state.core if warm.state.problem.same_shape(self._lowered) else None
        answer = solve_core(self._lowered, share * self._left(), self._gap, state, self._progress)
        return self._checked_answer(answer)

    def _milp(self, warm: Solution | None, before: Answer | None) -> Answer:
        start = None if before is None else before.labels
        if start is None and warm is not None and len(warm.labels) == len(self._problem.nodes):
            counts = [node.count for node in self._problem.nodes]
            fits = bool((warm.labels < counts).all())
            start = warm.labels if fits and self._problem.check(warm.labels).feasible else None
        answer = solve_milp(self._lowered, self._left(), self._gap, start, self._progress)
        return self._checked_answer(answer)

    def _checked_answer(self, answer: Answer) -> Answer:
        """The answer with the objective of the problem's own data, if its labels hold there."""
        if answer.labels is None:
            return answer
        found = self._problem.check(answer.labels)
        stats = {**answer.stats, "solver": answer.solver}
        if not found.feasible:
            # Rounding in the solver's own test of a row, at the most.
            refused = {**stats, "refused": found.violations[0]}
            return Answer(answer.solver, None, math.inf, answer.lower_bound, stats=refused)
        return Answer(
            answer.solver,
            answer.labels,
            found.objective,
            answer.lower_bound,
            answer.proved and gap_of(found.objective, answer.lower_bound) <= PROVED,
            state=answer.state,
            stats=stats,
        )


def _better(core: Answer, milp: Answer) -> Answer:
    """What both know: the better labels, the higher bound."""
    if milp.infeasible and core.labels is None:
        return milp
    best = milp if milp.objective < core.objective or milp.proved else core
    return Answer(
        best.solver,
        best.labels,
        best.objective,
        max(core.lower_bound, milp.lower_bound),
        best.proved,
        state=core.state,
        stats={**core.stats, **milp.stats, "solver": best.solver},
    )


def _checked(
    problem: Problem,
    time_limit: float | None,
    gap: float,
    warm: Solution | None,
    solver: SolverName,
) -> float:
    """The time limit in seconds."""
    if not isinstance(problem, Problem):
        raise fault("solve", "a Problem", type(problem).__name__)
    limit = math.inf if time_limit is None else bound("solve", "time_limit", time_limit)
    if limit <= 0:
        raise fault("solve, time_limit", "more than 0 seconds", f"{limit:g}")
    if not 0 <= bound("solve", "relative_gap", gap) < math.inf:
        raise fault("solve, relative_gap", "at least 0", f"{gap:g}")
    if warm is not None and not isinstance(warm, Solution):
        raise fault("solve, warm", "a Solution", type(warm).__name__)
    if solver not in get_args(SolverName):
        raise fault("solve, solver", "auto, core or highs", repr(solver))
    return limit
