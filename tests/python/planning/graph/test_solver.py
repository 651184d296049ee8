"""The core's solver of whole-graph problems, against trying everything, through the binding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from shardprop import _core

from .brute_force import INF, Statement, objectives, random_statement


def _solve(statement: Statement, **options: Any) -> _core.GraphAnswer:
    return _core.solve_graph(_core.GraphProblem(*statement.arguments()), **options)


def _assert_least(statement: Statement, answer: _core.GraphAnswer) -> None:
    labels, total = objectives(statement)
    least = total.min()
    assert answer.proved
    if least == INF:
        assert answer.status == "infeasible"
        assert answer.labels is None
        assert answer.objective == INF
        return
    assert answer.status == "optimal"
    assert answer.objective == pytest.approx(least, rel=1e-9, abs=1e-9)
    assert answer.lower_bound <= answer.objective
    assert answer.lower_bound == pytest.approx(least, rel=1e-9, abs=1e-9)
    chosen = (labels == answer.labels).all(axis=1)
    assert total[chosen] == pytest.approx([answer.objective])


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_random_problems_have_the_least_objective(block: int) -> None:
    rng = np.random.default_rng(block)
    feasible = 0
    for _ in range(1000):
        statement = random_statement(rng)
        answer = _solve(statement)
        _assert_least(statement, answer)
        feasible += answer.status == "optimal"
    assert 300 < feasible < 950


def test_a_warm_start_gives_the_same_answer() -> None:
    rng = np.random.default_rng(77)
    for _ in range(300):
        statement = random_statement(rng)
        state = _solve(statement).state
        for unary in statement.unaries:
            unary += rng.integers(0, 3, unary.shape)
            unary[rng.random(unary.shape) < 0.1] = INF
        if statement.rows and rng.random() < 0.5:
            statement.rows.pop()
        _assert_least(statement, _solve(statement, warm=state))


def test_a_warm_state_of_another_problem_is_refused() -> None:
    state = _solve(Statement([np.zeros(2)])).state
    with pytest.raises(ValueError, match="same nodes, labels and edges"):
        _solve(Statement([np.zeros(3)]), warm=state)


def _frustrated(nodes: int, labels: int, seed: int) -> Statement:
    """Every pair linked at random: no bound is tight, and no table small."""
    rng = np.random.default_rng(seed)
    statement = Statement([rng.random(labels) for _ in range(nodes)])
    for u in range(nodes):
        for v in range(u):
            statement.edges.append((u, v, len(statement.tables), -1, -1))
            statement.tables.append(rng.random((labels, labels)))
    return statement


def test_a_time_limit_gives_an_answer_and_an_honest_bound() -> None:
    statement = _frustrated(40, 8, 1)
    answer = _solve(statement, time_limit=0.3)
    assert answer.status == "feasible"
    assert not answer.proved
    assert math.isfinite(answer.lower_bound)
    assert answer.lower_bound < answer.objective
    assert answer.labels.shape == (40,)
    # No pair is cheaper than 0, and the answer costs what its labels say.
    total = sum(u[x] for u, x in zip(statement.unaries, answer.labels, strict=True))
    for u, v, table, _, _ in statement.edges:
        total += statement.tables[table][answer.labels[u], answer.labels[v]]
    assert answer.objective == pytest.approx(total, rel=1e-12)


def test_bound_under_a_time_limit_is_below_the_optimum() -> None:
    statement = _frustrated(7, 4, 2)
    _, total = objectives(statement)
    for limit in (0.0, 1e-4, 1e-3):
        answer = _solve(statement, time_limit=limit)
        assert answer.lower_bound <= total.min() + 1e-9
        assert answer.objective >= total.min() - 1e-9


def test_a_relative_gap_ends_the_search_within_it() -> None:
    statement = _frustrated(7, 4, 3)
    _, total = objectives(statement)
    answer = _solve(statement, relative_gap=0.5)
    assert answer.objective - answer.lower_bound <= 0.5 * abs(answer.objective) + 1e-9
    assert answer.lower_bound <= total.min() + 1e-9


@pytest.mark.slow
def test_equal_problems_get_equal_answers() -> None:
    statement = _frustrated(12, 5, 4)
    first, second = _solve(statement), _solve(statement)
    assert (first.labels == second.labels).all()
    assert first.iterations == second.iterations


def test_progress_is_reported() -> None:
    seen: list[tuple[float, int, float, float]] = []
    _solve(_frustrated(40, 8, 1), time_limit=0.5, progress=lambda *state: seen.append(state))
    assert seen
    assert [row[0] for row in seen] == sorted(row[0] for row in seen)
    assert seen[-1][2] <= seen[-1][3]


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_what_progress_raises_ends_the_solve(kind: type[BaseException]) -> None:
    def stop(*_: Any) -> None:
        raise kind("enough")

    with pytest.raises(kind, match="enough"):
        _solve(_frustrated(40, 8, 1), time_limit=20, progress=stop)


def test_a_problem_without_nodes_is_solved() -> None:
    answer = _solve(Statement([]))
    assert answer.status == "optimal"
    assert answer.objective == 0
    assert answer.labels.shape == (0,)


def test_a_node_without_labels_is_infeasible() -> None:
    assert _solve(Statement([np.zeros(2), np.zeros(0)])).status == "infeasible"


def _edge(u: int, v: int, table: int, u_classes: int, v_classes: int) -> Statement:
    return Statement(
        [np.zeros(2), np.zeros(2)],
        [np.zeros((2, 2))],
        [(u, v, table, u_classes, v_classes)],
        [np.array([0, 2], np.int32)],
    )


def _row(lo: float, hi: float, node: int, label: int, coefficient: float) -> Statement:
    terms = np.array([node], np.int32), np.array([label], np.int32), np.array([coefficient])
    return Statement([np.zeros(2)], rows=[(lo, hi, *terms)])


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        pytest.param(Statement([np.array([0, np.nan])]), "node 0", id="nan_price"),
        pytest.param(Statement([np.zeros(1), np.array([-INF])]), "node 1", id="infinite_gain"),
        pytest.param(Statement([np.zeros((2, 2))]), "node 0", id="matrix_for_a_node"),
        pytest.param(Statement([], [np.array([[np.nan]])]), "table 0", id="nan_in_a_table"),
        pytest.param(Statement([], [np.zeros(3)]), "table 0", id="vector_for_a_table"),
        pytest.param(_edge(0, 2, 0, -1, -1), "edge 0", id="no_such_node"),
        pytest.param(_edge(-1, 1, 0, -1, -1), "edge 0", id="negative_node"),
        pytest.param(_edge(0, 1, 1, -1, -1), "edge 0", id="no_such_table"),
        pytest.param(_edge(0, 1, 0, 1, -1), "edge 0", id="no_such_classes"),
        pytest.param(_edge(0, 1, 0, -1, 0), "edge 0", id="class_beyond_the_table"),
        pytest.param(
            Statement([np.zeros(2)], groups=[np.array([1], np.int32)]), "group 0", id="group_node"
        ),
        pytest.param(
            Statement([np.zeros(2), np.zeros(3)], groups=[np.array([0, 1], np.int32)]),
            "group 0",
            id="unequal_group",
        ),
        pytest.param(_row(0, 1, 1, 0, 1.0), "row 0", id="row_node"),
        pytest.param(_row(0, 1, 0, 2, 1.0), "row 0", id="row_label"),
        pytest.param(_row(0, 1, 0, 0, INF), "row 0", id="infinite_coefficient"),
        pytest.param(_row(np.nan, 1, 0, 0, 1.0), "row 0", id="nan_bound"),
    ],
)
def test_bad_input_is_refused_with_its_place(statement: Statement, place: str) -> None:
    with pytest.raises(ValueError, match=place):
        _core.GraphProblem(*statement.arguments())
