"""HiGHS on the mixed integer program of a problem. Needs the extra ``shardprop[milp]``."""

from __future__ import annotations

import math
import time
from types import ModuleType
from typing import Any

import numpy as np

from ...errors import ShardpropError
from .answer import PROVED, Answer, OnProgress, relative_gap
from .inputs import Floats, Ints
from .lowered import Lowered
from .milp_run import run_highs
from .program import Program, program

__all__ = ["is_installed", "solve_milp"]

# The tightest that HiGHS takes is 1e-10; its default of 1e-6 would pass rows that we refuse.
_FEASIBILITY = 1e-9


def is_installed() -> bool:
    """Is the extra there?"""
    try:
        _highs()
    except ShardpropError:
        return False
    return True


def solve_milp(
    problem: Lowered,
    time_limit: float = math.inf,
    gap: float = 0.0,
    start: Ints | None = None,
    progress: OnProgress | None = None,
) -> Answer:
    """Branch and cut.

    Args:
        time_limit: Seconds, of building the program, too.
        gap: The relative gap that will do.
        start: [N] labels that meet all constraints, to be improved on.
        progress: Told at most ten times a second. What it raises ends the solve.

    Raises:
        ShardpropError: highspy is not installed.
        ProgramTooLargeError: the program would not fit into memory.
    """
    highspy = _highs()
    began = time.monotonic()
    form = program(problem, began + time_limit)
    if form is None:
        stats = {"milp_status": "Time limit reached while the program was built"}
        return Answer("highs", None, math.inf, -math.inf, stats=stats)
    if any(len(kept) == 0 for kept in form.kept):
        return Answer("highs", None, math.inf, math.inf, infeasible=True)
    highs = highspy.Highs()
    _set_options(highs, gap)
    unit = _unit(form.costs)
    highs.passModel(_model(highspy, form, unit))
    if start is not None:
        _set_start(highspy, highs, form, start)
    if time_limit < math.inf:
        left = time_limit - (time.monotonic() - began)
        highs.setOptionValue("time_limit", max(0.0, left))
    run_highs(highs, began, progress, unit)
    return _answer(highspy, highs, form, unit)


def _highs() -> ModuleType:
    try:
        import highspy
    except ImportError:
        raise ShardpropError(
            "Expected the package highspy for solver='highs', got none: "
            "pip install 'shardprop[milp]'."
        ) from None
    module: ModuleType = highspy
    return module


def _set_options(highs: Any, gap: float) -> None:
    options = {
        "output_flag": False,
        "threads": 1,
        "mip_rel_gap": gap,
        "mip_abs_gap": 0.0,
        "mip_feasibility_tolerance": _FEASIBILITY,
        "primal_feasibility_tolerance": _FEASIBILITY,
        "dual_feasibility_tolerance": _FEASIBILITY,
    }
    for name, value in options.items():
        highs.setOptionValue(name, value)


def _unit(costs: Floats) -> float:
    """What HiGHS is to count as 1: its tolerances are absolute and would swallow tiny costs."""
    most = float(np.abs(costs).max(initial=0.0))
    return 2.0 ** (math.frexp(most)[1] - 10) if 0 < most < 1 else 1.0


def _model(highspy: ModuleType, form: Program, unit: float) -> Any:
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


def _set_start(highspy: ModuleType, highs: Any, form: Program, labels: Ints) -> None:
    """The binaries alone: HiGHS completes them by a linear program."""
    index, value = [], []
    for node, leader in enumerate(form.leaders):
        if node == leader:
            kept = form.kept[node]
            index += [form.offsets[node] + at for at in range(len(kept))]
            value += [1.0 if label == labels[node] else 0.0 for label in kept]
    highs.setSolution(len(index), np.array(index, dtype=np.int32), np.array(value))


def _answer(highspy: ModuleType, highs: Any, form: Program, unit: float) -> Answer:
    info, status = highs.getInfo(), highs.getModelStatus()
    stats: dict[str, int | float | str] = {
        "milp_variables": len(form.costs),
        "milp_rows": len(form.lo),
        "milp_nodes": int(info.mip_node_count),
        "milp_status": highs.modelStatusToString(status),
    }
    if status == highspy.HighsModelStatus.kInfeasible:
        return Answer("highs", None, math.inf, math.inf, infeasible=True, stats=stats)
    found = highs.getSolution()
    bound = float(info.mip_dual_bound) * unit
    if not found.value_valid or info.primal_solution_status != 2:
        return Answer("highs", None, math.inf, bound, stats=stats)
    objective = float(info.objective_function_value) * unit
    proved = (
        status == highspy.HighsModelStatus.kOptimal and relative_gap(objective, bound) <= PROVED
    )
    labels = form.labels(np.array(found.col_value))
    return Answer("highs", labels, objective, bound, proved, stats=stats)
