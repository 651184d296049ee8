"""Random problems, with rows and groups: what `solve` answers is what trying all labels finds."""

from __future__ import annotations

import math

import pytest

from shardprop.planning.graph import InfeasibleError, Problem, solve

from .drawn import Drawn, drawn


def _agrees(given: Drawn, problem: Problem) -> bool:
    """Whether there are labels; asserts that the answer is right."""
    best = given.best()
    if math.isinf(best):
        with pytest.raises(InfeasibleError) as caught:
            solve(problem)
        assert caught.value.reasons
        return False
    solution = solve(problem)
    assert solution.proved and solution.status == "optimal"
    assert solution.objective == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert given.cost(tuple(solution.labels.tolist())) == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert solution.lower_bound <= solution.objective and solution.gap <= 1e-9
    found = problem.check(solution.labels)
    assert found.feasible and found.objective == solution.objective
    return True


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_the_optimum_of_100_problems_is_that_of_brute_force(block: int) -> None:
    solved = [_agrees(given := drawn(seed), given.problem()) for seed in _seeds(block)]
    assert 30 < sum(solved) < 100  # both kinds are met


@pytest.mark.slow
@pytest.mark.parametrize("block", range(2))
def test_a_problem_that_was_stored_has_the_same_optimum(block: int) -> None:
    for seed in _seeds(block):
        given = drawn(seed)
        _agrees(given, Problem.from_arrays(*given.problem().to_arrays()))


def test_a_warm_start_after_constraints_are_dropped_and_added_changes_no_optimum() -> None:
    compared = 0
    for seed in range(300):
        given = drawn(seed)
        if math.isinf(given.best()):
            continue
        problem = given.problem()
        before = solve(problem)
        relaxed = problem.without(list(problem.constraints))
        bare = solve(Drawn(given.costs, given.edges).problem())
        assert solve(relaxed, warm=before).objective == pytest.approx(bare.objective, abs=1e-9)
        again = solve(problem, warm=bare)
        assert again.objective == pytest.approx(before.objective, abs=1e-9)
        assert again.proved
        compared += len(problem.constraints) > 0
    assert compared > 100


def test_evaluations_are_those_of_the_plain_data() -> None:
    dice_seeds = range(400)
    broken = 0
    for seed in dice_seeds:
        given = drawn(seed)
        labels = tuple((seed // (at + 1)) % len(costs) for at, costs in enumerate(given.costs))
        found = given.problem().check(labels)
        cost = given.cost(labels)
        assert found.feasible == math.isfinite(cost)
        if found.feasible:
            assert found.objective == pytest.approx(cost, abs=1e-9)
        broken += not found.feasible
    assert 100 < broken < 400


def _seeds(block: int) -> range:
    return range(100 * block, 100 * block + 100)
