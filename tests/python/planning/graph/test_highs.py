"""The core against HiGHS, an independent solver: the same optima, the same refusals."""

from __future__ import annotations

import numpy as np
import pytest

from shardprop.planning.graph import InfeasibleError, Problem, solve

from .drawn import drawn
from .highs_oracle import optimum


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_highs_and_the_core_agree_on_random_problems(block: int) -> None:
    solved = 0
    for seed in range(2000 + 40 * block, 2040 + 40 * block):
        problem = drawn(seed).problem()
        expected = optimum(problem)
        if expected is None:
            with pytest.raises(InfeasibleError):
                solve(problem)
            continue
        solution = solve(problem)
        assert solution.proved and problem.check(solution.labels).feasible
        assert solution.objective == pytest.approx(expected.objective, rel=1e-9, abs=1e-9)
        solved += 1
    assert solved > 10


def test_a_row_in_bytes_is_kept_where_coefficients_differ_by_little() -> None:
    problem = Problem()
    for at in range(6):
        problem.add_node(f"n{at}", [1.0, 0.0])
    terms = [(at, 1, 2.0**33 + 1000 * at) for at in range(6)]
    problem.add_row(terms, hi=3 * 2.0**33 + 3000, name="bytes")
    for found in (solve(problem), optimum(problem)):
        assert found is not None
        assert found.objective == 3 and found.labels.tolist() == [1, 1, 1, 0, 0, 0]
        assert problem.check(found.labels).rows["bytes"] == 3 * 2.0**33 + 3000


def test_tiny_costs_are_told_apart() -> None:
    for seed in range(20):
        dice = np.random.default_rng(seed)
        problem = Problem()
        for at in range(4):
            problem.add_node(f"n{at}", dice.random(3) * 1e-9)
        for u, v in ((0, 1), (1, 2), (2, 3), (3, 0)):
            problem.add_edge(u, v, dice.random((3, 3)) * 1e-9)
        expected = optimum(problem)
        assert expected is not None
        assert solve(problem).objective == pytest.approx(expected.objective, rel=1e-8, abs=0)
