"""Problems without an answer: the reasons are named, and none of them can be spared."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from shardprop.planning.graph import InfeasibleError, Problem, solve

from .drawn import Drawn, drawn

INF = math.inf
SAME = np.where(np.eye(2) == 1, 0.0, INF)  # equal labels
OTHER = np.where(np.eye(2) == 0, 0.0, INF)  # different labels


def _nodes(count: int, labels: int = 2) -> Problem:
    problem = Problem()
    for at in range(count):
        problem.add_node(f"n{at}", np.zeros(labels))
    return problem


def _refusal(problem: Problem) -> InfeasibleError:
    with pytest.raises(InfeasibleError) as caught:
        solve(problem)
    return caught.value


def _equal_nodes_with_other_labels() -> Problem:
    problem = _nodes(3)
    problem.allow("n0", [0], name="a")
    problem.forbid("n2", [0], name="b")
    problem.forbid("n1", [1], name="idle")
    problem.equal(["n0", "n2"], name="same")
    return problem


def _triangle_of_two_colours() -> Problem:
    problem = _nodes(4)
    problem.add_edge("n0", "n1", OTHER, name="01")
    problem.add_edge("n1", "n2", OTHER, name="12")
    problem.add_edge("n2", "n0", OTHER, name="20")
    problem.add_edge("n2", "n3", OTHER, name="23")
    return problem


def _chain_at_odds() -> Problem:
    problem = _nodes(6)
    for at in range(5):
        problem.add_edge(at, at + 1, SAME, name=f"{at}{at + 1}")
    problem.allow("n1", [0], name="left")
    problem.allow("n4", [1], name="right")
    problem.allow("n5", [0, 1], name="beyond")
    return problem


def _row_above_its_bound() -> Problem:
    problem = _nodes(3)
    terms = [(node, label, 2.0 + label) for node in range(3) for label in range(2)]
    problem.add_row(terms, hi=5.0, name="memory")
    problem.add_edge("n0", "n1", OTHER, name="01")
    return problem


def _row_that_masks_put_out_of_reach() -> Problem:
    problem = _nodes(3)
    problem.add_row([(0, 1, 4.0), (1, 1, 4.0), (2, 1, 4.0)], hi=7.0, name="memory")
    problem.allow("n0", [1], name="0 whole")
    problem.allow("n1", [1], name="1 whole")
    problem.forbid("n2", [1], name="2 split")
    return problem


def _two_rows_at_odds() -> Problem:
    problem = _nodes(4)
    terms = [(node, 1, 1.0) for node in range(4)]
    problem.add_row(terms, hi=1.0, name="at most")
    problem.add_row(terms, lo=2.0, name="at least")
    problem.add_row(terms, lo=0.0, hi=3.0, name="idle")
    return problem


def _odd_sum() -> Problem:
    """Pairs that are equal have an even sum, which propagation alone cannot see."""
    problem = _nodes(4)
    problem.equal(["n0", "n1"], name="01")
    problem.equal(["n2", "n3"], name="23")
    terms = [(node, 1, 1.0) for node in range(4)]
    problem.add_row(terms, lo=1.0, hi=1.0, name="one")
    return problem


def _pairs_and_costs() -> Problem:
    problem = Problem()
    problem.add_node("x", [0.0, 1.0, INF])
    problem.add_node("y", [0.0, 1.0])
    problem.allow_pairs("x", "y", [(2, 0), (2, 1)], name="only 2")
    problem.forbid("y", [1], name="idle")
    return problem


def _edge_to_itself() -> Problem:
    problem = _nodes(1)
    problem.add_edge("n0", "n0", OTHER, name="loop")
    return problem


def _classes_at_odds() -> Problem:
    problem = _nodes(2, labels=4)
    halves = np.array([0, 0, 1, 1])
    problem.add_edge("n0", "n1", SAME, u_classes=halves, v_classes=halves, name="halves")
    problem.allow("n0", [0, 1], name="low")
    problem.allow("n1", [2, 3], name="high")
    return problem


CASES: dict[str, tuple[Callable[[], Problem], set[str], set[str]]] = {
    "equal nodes": (_equal_nodes_with_other_labels, {"a", "b", "same"}, {"n0", "n2"}),
    "triangle": (_triangle_of_two_colours, {"01", "12", "20"}, {"n0", "n1", "n2"}),
    "chain": (_chain_at_odds, {"left", "12", "23", "34", "right"}, {"n1", "n2", "n3", "n4"}),
    "row alone": (_row_above_its_bound, {"memory"}, {"n0", "n1", "n2"}),
    "row and masks": (
        _row_that_masks_put_out_of_reach,
        {"memory", "0 whole", "1 whole"},
        {"n0", "n1", "n2"},
    ),
    "two rows": (_two_rows_at_odds, {"at most", "at least"}, {"n0", "n1", "n2", "n3"}),
    "odd sum": (_odd_sum, {"01", "23", "one"}, {"n0", "n1", "n2", "n3"}),
    "pairs and costs": (_pairs_and_costs, {"costs of 'x'", "only 2"}, {"x", "y"}),
    "edge to itself": (_edge_to_itself, {"loop"}, {"n0"}),
    "classes": (_classes_at_odds, {"halves", "low", "high"}, {"n0", "n1"}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_reasons_are_those_and_no_others(case: str) -> None:
    build, reasons, nodes = CASES[case]
    error = _refusal(build())
    assert set(error.reasons) == reasons and len(error.reasons) == len(reasons)
    assert set(error.nodes) == nodes
    assert error.minimal
    for name in reasons:
        assert name in str(error)


@pytest.mark.parametrize("case", CASES)
def test_without_any_one_of_the_constraints_there_is_an_answer(case: str) -> None:
    problem = CASES[case][0]()
    dropped = [name for name in _refusal(problem).reasons if name in problem.constraints]
    if case in ("triangle", "edge to itself"):
        assert dropped == []
    for name in dropped:
        assert solve(problem.without(name)).proved


def test_a_row_is_told_with_its_numbers() -> None:
    assert str(_refusal(_row_above_its_bound())) == (
        "Expected labels that meet all constraints, got one that none can meet: 'memory' wants a "
        "sum of at most 5, where the labels left give 6 to 9."
    )
    message = str(_refusal(_row_that_masks_put_out_of_reach()))
    assert "'memory' wants a sum of at most 7, where the labels left give 8 to 12" in message
    assert "got 3 that cannot be met together (any of which could be dropped)" in message


def test_an_edge_that_leaves_one_node_no_label_names_the_node() -> None:
    assert str(_refusal(_edge_to_itself())).startswith(
        "node 'n0': Expected a label that is left, got none: prices of 'loop'"
    )


def test_of_two_conflicts_one_is_told() -> None:
    problem = _triangle_of_two_colours()
    problem.add_node("m0", [0.0, 0.0])
    problem.add_node("m1", [0.0, 0.0])
    problem.allow("m0", [0], name="m0 is 0")
    problem.allow("m1", [1], name="m1 is 1")
    problem.equal(["m0", "m1"], name="m same")
    assert set(_refusal(problem).reasons) == {"m0 is 0", "m1 is 1", "m same"}


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_reasons_of_random_problems_are_at_odds_and_minimal(block: int) -> None:
    """By brute force on the plain data: together they leave nothing, without any one something."""
    refused = 0
    for seed in range(1000 + 150 * block, 1150 + 150 * block):
        given = drawn(seed)
        if not math.isinf(given.best()):
            continue
        refused += 1
        error = _refusal(given.problem())
        assert error.minimal
        assert math.isinf(_only(given, error.reasons).best())
        for name in error.reasons:
            rest = [other for other in error.reasons if other != name]
            assert math.isfinite(_only(given, rest).best()), (seed, name)
    assert refused > 20


def _only(given: Drawn, names: list[str] | tuple[str, ...]) -> Drawn:
    """The plain problem with nothing but the limits of these names, costs aside."""
    problem = given.problem()
    edges = [edge.name for edge in problem.edges]
    made = list(problem.constraints)
    kept = Drawn([np.zeros(len(costs)) for costs in given.costs])
    for at, costs in enumerate(given.costs):
        if f"costs of 'n{at}'" in names:
            kept.costs[at] = np.where(np.isinf(costs), INF, 0.0)
    for name, (u, v, prices, of_u, of_v) in zip(edges, given.edges, strict=True):
        if name in names:
            kept.edges.append((u, v, np.where(np.isinf(prices), INF, 0.0), of_u, of_v))
    limits = [*given.allowed, *given.forbidden, *given.pairs, *given.groups, *given.rows]
    for name, limit in zip(made, limits, strict=True):
        if name in names:
            for here, there in (
                (given.allowed, kept.allowed),
                (given.forbidden, kept.forbidden),
                (given.pairs, kept.pairs),
                (given.groups, kept.groups),
                (given.rows, kept.rows),
            ):
                if any(limit is one for one in here):
                    there.append(limit)  # type: ignore[arg-type]
    return kept
