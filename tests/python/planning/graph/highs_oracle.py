"""The optimum of a problem by branch and cut: HiGHS on its mixed integer program.

It shares the arrays that the core is given and nothing of how the core solves them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from shardprop.planning.graph import Problem
from shardprop.planning.graph.inputs import Floats, Ints
from shardprop.planning.graph.lowered import lower

from .highs_program import Program, program

__all__ = ["Optimum", "optimum"]

# The tightest that HiGHS takes is 1e-10; its default of 1e-6 would pass rows that we refuse.
_FEASIBILITY = 1e-9

_OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
    "mip_feasibility_tolerance": _FEASIBILITY,
    "primal_feasibility_tolerance": _FEASIBILITY,
    "dual_feasibility_tolerance": _FEASIBILITY,
}


@dataclass(frozen=True)
class Optimum:
    """Labels of least cost.

    Attributes:
        labels: [N].
        objective: What they cost by `Problem.check`, which finds that they meet all constraints.
        lower_bound: Of HiGHS, closed up to rounding.
    """

    labels: Ints
    objective: float
    lower_bound: float


def optimum(problem: Problem) -> Optimum | None:
    """The optimum, proved; None if HiGHS proves that there are no labels."""
    form = program(lower(problem))
    if any(len(kept) == 0 for kept in form.kept):
        return None
    highs = highspy.Highs()
    for name, value in _OPTIONS.items():
        highs.setOptionValue(name, value)
    unit = _unit(form.costs)
    highs.passModel(_model(form, unit))
    highs.run()
    status = highs.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return None
    assert status == highspy.HighsModelStatus.kOptimal, highs.modelStatusToString(status)
    labels = form.labels(np.array(highs.getSolution().col_value))
    found = problem.check(labels)
    assert found.feasible, found.violations
    bound = float(highs.getInfo().mip_dual_bound) * unit
    assert found.objective - bound <= 1e-9 * max(1.0, abs(found.objective))
    return Optimum(labels, found.objective, bound)


def _unit(costs: Floats) -> float:
    """What HiGHS is to count as 1: its tolerances are absolute and would swallow tiny costs."""
    most = float(np.abs(costs).max(initial=0.0))
    return 2.0 ** (math.frexp(most)[1] - 10) if 0 < most < 1 else 1.0


def _model(form: Program, unit: float) -> Any:
    count = len(form.costs)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = count, len(form.lo)
    model.col_cost_ = form.costs / unit
    model.col_lower_, model.col_upper_ = np.zeros(count), np.ones(count)
    model.row_lower_, model.row_upper_ = form.lo, form.hi
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.num_col_, model.a_matrix_.num_row_ = count, len(form.lo)
    model.a_matrix_.start_ = form.starts
    model.a_matrix_.index_ = form.columns
    model.a_matrix_.value_ = form.values
    kinds = highspy.HighsVarType
    continuous = count - form.binaries
    model.integrality_ = [kinds.kInteger] * form.binaries + [kinds.kContinuous] * continuous
    return model
