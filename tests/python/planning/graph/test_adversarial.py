"""Problems made to be awkward: magnitudes far apart, loops and both directions, chains, changes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from shardprop.planning.graph import InfeasibleError, Problem, Solution, solve

from .drawn import Drawn, drawn


def _magnitudes(seed: int) -> Drawn:
    """Prices from 1e-9 to 1e12 in one problem, or all below 1e-9."""
    dice = np.random.default_rng(seed)
    tiny = dice.random() < 0.5

    def prices(shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
        if tiny:
            return dice.random(shape) * 1e-9
        return np.asarray(10.0 ** dice.uniform(-9, 12, shape))

    counts = [int(count) for count in dice.integers(1, 5, size=dice.integers(1, 6))]
    problem = Drawn([prices((count,)) for count in counts])
    for _ in range(dice.integers(0, 9)):
        u, v = (int(node) for node in dice.integers(len(counts), size=2))
        problem.edges.append((u, v, prices((counts[u], counts[v])), None, None))
        problem.edges.append((v, u, prices((counts[v], counts[u])), None, None))
    return problem


@pytest.mark.parametrize("block", range(4))
def test_prices_of_any_magnitude_give_the_least_cost(block: int) -> None:
    for seed in range(100 * block, 100 * block + 100):
        problem = _magnitudes(seed)
        solution = solve(problem.problem())
        assert solution.proved
        assert solution.objective == pytest.approx(problem.best(), rel=1e-9, abs=0)


def _answer(problem: Drawn, warm: Solution | None = None) -> Solution | None:
    try:
        return solve(problem.problem(), warm=warm)
    except InfeasibleError:
        return None


@pytest.mark.slow
def test_a_warm_start_with_or_without_rows_gives_the_cold_answer() -> None:
    compared = 0
    for seed in range(7000, 7300):
        problem = drawn(seed)
        rows, problem.rows = problem.rows, []
        free = _answer(problem)
        problem.rows = rows
        bound = _answer(problem)
        if free is None or bound is None:
            continue
        again = _answer(problem, warm=free)
        assert again is not None
        assert again.objective == pytest.approx(bound.objective, rel=1e-9, abs=1e-9)
        problem.rows = []
        back = _answer(problem, warm=bound)
        assert back is not None
        assert back.objective == pytest.approx(free.objective, rel=1e-9, abs=1e-9)
        compared += 1
    assert compared > 100


def _chain(nodes: int) -> tuple[Problem, float]:
    """A chain, and its least cost by going through it once."""
    dice = np.random.default_rng(3)
    problem, least = Problem(), np.zeros(4)
    prices = [dice.random((4, 4)) for _ in range(5)]
    for at in range(nodes):
        costs = dice.random(4)
        problem.add_node(f"n{at}", costs)
        if at:
            problem.add_edge(at - 1, at, prices[at % 5])
            least = (least[:, None] + prices[at % 5]).min(axis=0)
        least = least + costs
    return problem, float(least.min())


def test_a_long_chain_is_solved_and_alike_each_time() -> None:
    problem, least = _chain(5000)
    solution = solve(problem)
    assert solution.proved and solution.objective == pytest.approx(least)
    assert (solve(problem).labels == solution.labels).all()


def test_however_short_the_time_there_is_an_answer_with_a_bound() -> None:
    problem, least = _chain(5000)
    solution = solve(problem, time_limit=1e-9)
    assert solution.lower_bound <= least * (1 + 1e-9) and solution.objective >= least * (1 - 1e-9)
    assert np.isfinite(solution.gap) and problem.check(solution.labels).feasible


def test_a_solution_shows_itself_in_one_short_line() -> None:
    problem, _ = _chain(1000)
    text = repr(solve(problem))
    assert len(text) < 150
    for part in ("objective=", "gap=", "proved=True", "seconds=", "nodes=1000"):
        assert part in text
