"""HiGHS on the same problems: the same optima and refusals, and an error where it is absent."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np
import pytest

from shardprop.errors import ShardpropError
from shardprop.planning.graph import InfeasibleError, Problem, UnsolvedError, core, solve
from shardprop.planning.graph.answer import Answer
from shardprop.planning.graph.lowered import lower
from shardprop.planning.graph.program import program
from shardprop.planning.graph.solving import solve_core

from .drawn import drawn


@pytest.mark.parametrize("block", range(4))
def test_highs_and_the_core_agree_on_random_problems(block: int) -> None:
    pytest.importorskip("highspy")
    solved = 0
    for seed in range(2000 + 40 * block, 2040 + 40 * block):
        problem = drawn(seed).problem()
        try:
            expected = solve(problem, solver="core")
        except InfeasibleError:
            with pytest.raises(InfeasibleError):
                solve(problem, solver="highs")
            continue
        solution = solve(problem, solver="highs")
        assert solution.solver == "highs" and solution.proved
        assert solution.objective == pytest.approx(expected.objective, rel=1e-9, abs=1e-9)
        assert problem.check(solution.labels).feasible
        solved += 1
    assert solved > 10


def test_a_row_in_bytes_is_kept_where_coefficients_differ_by_little() -> None:
    pytest.importorskip("highspy")
    problem = Problem()
    for at in range(6):
        problem.add_node(f"n{at}", [1.0, 0.0])
    terms = [(at, 1, 2.0**33 + 1000 * at) for at in range(6)]
    problem.add_row(terms, hi=3 * 2.0**33 + 3000, name="bytes")
    solution = solve(problem, solver="highs")
    assert solution.objective == 3 and solution.labels.tolist() == [1, 1, 1, 0, 0, 0]
    assert problem.check(solution.labels).rows["bytes"] == 3 * 2.0**33 + 3000


def _gives_up(labels: Any, objective: float) -> Any:
    """A core that has labels and a bound of -5, and proves nothing."""

    def core_that_gives_up(*_: object, **__: object) -> Answer:
        return Answer("core", labels, objective, -5.0, stats={"iterations": 7})

    return core_that_gives_up


def _two_nodes() -> Problem:
    problem = Problem()
    problem.add_node("a", [3.0, 1.0])
    problem.add_node("b", [2.0, 4.0])
    problem.add_edge("a", "b", np.array([[0.0, 0.0], [5.0, 1.0]]))
    return problem


def test_highs_closes_the_gap_that_the_core_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("highspy")
    dear = np.array([1, 0], dtype=np.int32)
    monkeypatch.setattr("shardprop.planning.graph.solving.solve_core", _gives_up(dear, 8.0))
    solution = solve(_two_nodes(), time_limit=60)
    assert solution.solver == "highs" and solution.proved and solution.objective == 5
    assert solution.stats["iterations"] == 7 and solution.stats["milp_status"] == "Optimal"


def test_without_highs_the_gap_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    dear = np.array([1, 0], dtype=np.int32)
    monkeypatch.setattr("shardprop.planning.graph.solving.solve_core", _gives_up(dear, 8.0))
    monkeypatch.setattr("shardprop.planning.graph.solving.is_installed", lambda: False)
    solution = solve(_two_nodes())
    assert (solution.objective, solution.lower_bound) == (8.0, -5.0)
    assert not solution.proved and solution.status == "feasible"
    assert solution.gap == 13 / 8


def test_a_gap_that_will_do_needs_no_second_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    dear = np.array([1, 0], dtype=np.int32)
    monkeypatch.setattr("shardprop.planning.graph.solving.solve_core", _gives_up(dear, 8.0))
    solution = solve(_two_nodes(), relative_gap=2.0)
    assert solution.solver == "core" and solution.objective == 8


def test_labels_that_break_a_row_are_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = _two_nodes()
    problem.add_row([("a", 1, 1.0)], hi=0.5, name="memory")
    wrong = np.array([1, 0], dtype=np.int32)
    monkeypatch.setattr("shardprop.planning.graph.solving.solve_core", _gives_up(wrong, 8.0))
    with pytest.raises(ShardpropError, match="Expected labels that meet all constraints within"):
        solve(problem, solver="core")


def test_without_the_package_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "highspy":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ShardpropError, match=r"pip install 'shardprop\[milp\]'"):
        solve(_two_nodes(), solver="highs")
    assert solve(_two_nodes()).objective == 5


def test_highs_starts_from_labels_and_shows_progress() -> None:
    pytest.importorskip("highspy")
    problem = _two_nodes()
    seen: list[tuple[float, int, float, float]] = []
    solution = solve(
        problem,
        solver="highs",
        warm=solve(problem),
        progress=lambda *state: seen.append(state),
    )
    assert solution.objective == 5
    assert all(len(state) == 4 for state in seen)


def test_the_core_is_asked_for_no_more_than_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def noting(problem: Any, limit: float, *rest: Any) -> Answer:
        limits.append(limit)
        return core.solve_core(problem, limit, *rest)

    assert solve_core is core.solve_core
    monkeypatch.setattr("shardprop.planning.graph.solving.solve_core", noting)
    solve(_two_nodes(), solver="core", time_limit=10)
    solve(_two_nodes(), solver="core")
    assert 0 < limits[0] <= 10 and math.isinf(limits[1])


def _hard(nodes: int) -> Problem:
    """Dense, and with a row that binds, so that HiGHS is at it for long."""
    dice = np.random.default_rng(5)
    problem = Problem()
    for at in range(nodes):
        problem.add_node(f"n{at}", dice.random(6))
    for u in range(nodes):
        for v in range(u + 1, nodes):
            problem.add_edge(u, v, dice.random((6, 6)))
    terms = [(at, label, float(dice.random())) for at in range(nodes) for label in range(6)]
    problem.add_row(terms, hi=nodes / 3, name="memory")
    return problem


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_what_progress_raises_ends_highs(kind: type[BaseException]) -> None:
    pytest.importorskip("highspy")

    def stop(*_: object) -> None:
        raise kind("enough")

    with pytest.raises(kind, match="enough"):
        solve(_hard(20), solver="highs", time_limit=30, progress=stop)


def test_tiny_costs_are_told_apart() -> None:
    pytest.importorskip("highspy")
    for seed in range(20):
        dice = np.random.default_rng(seed)
        problem = Problem()
        for at in range(4):
            problem.add_node(f"n{at}", dice.random(3) * 1e-9)
        for u, v in ((0, 1), (1, 2), (2, 3), (3, 0)):
            problem.add_edge(u, v, dice.random((3, 3)) * 1e-9)
        core_objective = solve(problem, solver="core").objective
        objective = solve(problem, solver="highs").objective
        assert objective == pytest.approx(core_objective, rel=1e-8, abs=0)


def test_building_the_program_counts_as_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("highspy")
    lowered = lower(_two_nodes())
    assert program(lowered, until=-math.inf) is None
    monkeypatch.setattr("shardprop.planning.graph.milp.program", lambda *_: None)
    with pytest.raises(UnsolvedError):
        solve(_two_nodes(), solver="highs", time_limit=5)


def test_a_program_that_is_too_large_leaves_the_cores_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("highspy")
    monkeypatch.setattr("shardprop.planning.graph.program.MOST_VARIABLES", 3)
    with pytest.raises(ShardpropError, match="Expected at most 3 variables"):
        solve(_two_nodes(), solver="highs")
    dear = np.array([1, 0], dtype=np.int32)
    monkeypatch.setattr("shardprop.planning.graph.solving.solve_core", _gives_up(dear, 8.0))
    solution = solve(_two_nodes())
    assert solution.objective == 8 and not solution.proved
    assert "at most 3 variables" in str(solution.stats["milp_status"])
