"""What `solve` makes of a core that proves nothing, or is wrong; and of the argument `solver`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from shardprop.errors import ShardpropError
from shardprop.planning.graph import Problem, core, solve
from shardprop.planning.graph.core import solve_core

from .fake_core import core_answer


def _gives_up(*_: object) -> Any:
    """A core that has labels and a bound of -5, and proves nothing."""
    return core_answer([1, 0], 8.0, -5.0)


def _two_nodes() -> Problem:
    problem = Problem()
    problem.add_node("a", [3.0, 1.0])
    problem.add_node("b", [2.0, 4.0])
    problem.add_edge("a", "b", np.array([[0.0, 0.0], [5.0, 1.0]]))
    return problem


def test_the_gap_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardprop.planning.graph.solving.solve_core", _gives_up)
    solution = solve(_two_nodes())
    assert (solution.objective, solution.lower_bound) == (8.0, -5.0)
    assert not solution.proved and solution.status == "feasible"
    assert solution.gap == 13 / 8
    assert solution.stats["iterations"] == 7


def test_labels_that_break_a_row_are_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = _two_nodes()
    problem.add_row([("a", 1, 1.0)], hi=0.5, name="memory")
    monkeypatch.setattr("shardprop.planning.graph.solving.solve_core", _gives_up)
    with pytest.raises(ShardpropError, match="Expected labels that meet all constraints within"):
        solve(problem)


def test_the_core_is_asked_for_no_more_than_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def noting(problem: Any, limit: float, *rest: Any) -> Any:
        limits.append(limit)
        return core.solve_core(problem, limit, *rest)

    assert solve_core is core.solve_core
    monkeypatch.setattr("shardprop.planning.graph.solving.solve_core", noting)
    solve(_two_nodes(), time_limit=10)
    solve(_two_nodes())
    assert 0 < limits[0] <= 10 and math.isinf(limits[1])


def test_highs_is_refused_with_the_way_out() -> None:
    with pytest.raises(
        ShardpropError, match=r"HiGHS is no longer .* Leave the argument out .*to_arrays"
    ):
        solve(_two_nodes(), solver="highs")


@pytest.mark.parametrize("name", ["auto", "core"])
def test_a_solver_that_is_the_core_is_deprecated(name: str) -> None:
    with pytest.warns(DeprecationWarning, match="leave the argument out"):
        solution = solve(_two_nodes(), solver=name)
    with pytest.warns(DeprecationWarning, match="there is only the core"):
        assert solution.solver == "core"
    assert solution.objective == 5
