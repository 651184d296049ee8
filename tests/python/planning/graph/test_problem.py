"""Building a problem: what is stored, what is shared, and what is refused without a trace."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from shardprop.errors import ShardpropError
from shardprop.planning.graph import InfeasibleError, Problem, solve

INF = math.inf


def _small() -> Problem:
    """Nodes a (3 labels), b (2), c (3); edge a -> b; one constraint."""
    problem = Problem()
    problem.add_node("a", [1.0, 2.0, INF], labels=["R", "S(0)", "P"])
    problem.add_node("b", [0.0, 5.0])
    problem.add_node("c", [1.0, 1.0, 1.0])
    problem.add_edge("a", "b", np.array([[0.0, 1.0], [2.0, INF], [0.0, 0.0]]), name="ab")
    problem.forbid("c", [2], name="no 2")
    return problem


def _state(problem: Problem) -> Any:
    values, arrays = problem.to_arrays()
    return values, {name: array.tolist() for name, array in arrays.items()}


REFUSED: dict[str, tuple[Callable[[Any], object], str]] = {
    "node name given twice": (
        lambda p: p.add_node("a", [1.0]),
        "node 'a': Expected a name that no other node has, got that of node 0.",
    ),
    "node name that is none": (
        lambda p: p.add_node("", [1.0]),
        "add_node: Expected a name, got ''.",
    ),
    "NaN cost": (
        lambda p: p.add_node("x", [1.0, math.nan]),
        "node 'x': Expected costs that are numbers, got NaN at [1].",
    ),
    "cost of -inf": (
        lambda p: p.add_node("x", [-INF, 1.0]),
        "node 'x': Expected costs above -inf, got -inf at [0].",
    ),
    "no label left by costs": (
        lambda p: p.add_node("x", [INF, INF]),
        "node 'x': Expected costs of which one is finite, got inf everywhere.",
    ),
    "no labels": (
        lambda p: p.add_node("x", []),
        "node 'x': Expected at least one of the costs, got shape (0,).",
    ),
    "costs of two dims": (
        lambda p: p.add_node("x", [[1.0]]),
        "node 'x': Expected costs of 1 dim(s), got shape (1, 1).",
    ),
    "costs of words": (
        lambda p: p.add_node("x", ["cheap"]),
        "node 'x': Expected numbers as costs, got dtype <U5.",
    ),
    "ragged costs": (
        lambda p: p.add_node("x", [[1.0], [1.0, 2.0]]),
        "node 'x': Expected an array of costs, got rows of unequal lengths.",
    ),
    "label names of another number": (
        lambda p: p.add_node("x", [1.0, 2.0], labels=["R"]),
        "node 'x': Expected 2 label names, one per cost, got 1.",
    ),
    "edge to no node": (
        lambda p: p.add_edge("a", "d", np.zeros((3, 2))),
        "add_edge, v: Expected the name of a node, got 'd'.",
    ),
    "edge to a node out of range": (
        lambda p: p.add_edge(0, 3, np.zeros((3, 2))),
        "add_edge, v: Expected a node index below 3, got 3.",
    ),
    "edge to a node counted from the end": (
        lambda p: p.add_edge(-1, 0, np.zeros((3, 2))),
        "add_edge, u: Expected a node index below 3, got -1.",
    ),
    "edge to what is no node": (
        lambda p: p.add_edge(True, 0, np.zeros((3, 2))),
        "add_edge, u: Expected the index or the name of a node, got True.",
    ),
    "prices of another shape": (
        lambda p: p.add_edge("a", "b", np.zeros((3, 3)), name="mm_3"),
        "edge 'mm_3' (node 0 'a' x node 1 'b'): Expected prices of shape (3, 2), got (3, 3).",
    ),
    "NaN price": (
        lambda p: p.add_edge("b", "b", np.array([[0.0, 1.0], [math.nan, 0.0]])),
        "edge 'b -> b' (node 1 'b' x node 1 'b'): Expected prices that are numbers, got NaN at "
        "[1, 0].",
    ),
    "all pairs forbidden": (
        lambda p: p.add_edge("b", "b", np.full((2, 2), INF)),
        "edge 'b -> b' (node 1 'b' x node 1 'b'): Expected prices of which one is finite, got inf "
        "everywhere.",
    ),
    "edge name given twice": (
        lambda p: p.add_edge("a", "b", np.zeros((3, 2)), name="ab"),
        "add_edge, name: Expected a name of its own, got that of an edge, 'ab'.",
    ),
    "class out of range": (
        lambda p: p.add_edge("a", "b", np.zeros((2, 2)), u_classes=[0, 1, 2]),
        "edge 'a -> b' (node 0 'a' x node 1 'b'): Expected u_classes from 0 to 1, got 2 at [2].",
    ),
    "classes of another number": (
        lambda p: p.add_edge("a", "b", np.zeros((2, 2)), u_classes=[0, 1]),
        "edge 'a -> b' (node 0 'a' x node 1 'b'): Expected 3 u_classes, one per label, got 2.",
    ),
    "classes that are no integers": (
        lambda p: p.add_edge("a", "b", np.zeros((3, 1)), v_classes=[0.0, 0.0]),
        "edge 'a -> b' (node 0 'a' x node 1 'b'): Expected whole numbers as v_classes, got dtype "
        "float64.",
    ),
    "allowed label out of range": (
        lambda p: p.allow("a", [0, 3]),
        "allow #2 on 'a': Expected labels from 0 to 2, got 3 at [1].",
    ),
    "allow nothing": (
        lambda p: p.allow("a", [], name="none"),
        "allow 'none': Expected at least one label, got none.",
    ),
    "labels that are words": (
        lambda p: p.allow("a", "R"),
        "allow #2 on 'a': Expected label indices, got 'R'.",
    ),
    "constraint name given twice": (
        lambda p: p.forbid("a", [0], name="no 2"),
        "forbid, name: Expected a name of its own, got that of a constraint, 'no 2'.",
    ),
    "constraint with the name of an edge": (
        lambda p: p.forbid("a", [0], name="ab"),
        "forbid, name: Expected a name of its own, got that of an edge, 'ab'.",
    ),
    "no pairs": (
        lambda p: p.allow_pairs("a", "b", [], name="none"),
        "allow_pairs 'none': Expected at least one pair, got none.",
    ),
    "pair out of range": (
        lambda p: p.allow_pairs("a", "b", [(0, 0), (1, 2)], name="pairs"),
        "allow_pairs 'pairs', pair 1: Expected a label of v below 2, got 2.",
    ),
    "pairs of three": (
        lambda p: p.allow_pairs("a", "b", [(0, 0, 0)], name="pairs"),
        "allow_pairs 'pairs': Expected pairs of labels, got shape (1, 3).",
    ),
    "equal to itself alone": (
        lambda p: p.equal(["a"]),
        "equal: Expected at least two nodes, got 1.",
    ),
    "equal twice": (
        lambda p: p.equal(["a", "c", "a"], name="same"),
        "equal 'same': Expected each node once, got node 0 'a' again.",
    ),
    "equal with other labels": (
        lambda p: p.equal(["a", "b"], name="same"),
        "equal 'same': Expected 3 labels as node 0 'a' has, got 2 of node 1 'b'.",
    ),
    "row upside down": (
        lambda p: p.add_row([("a", 0, 1.0)], lo=2, hi=1, name="memory"),
        "row 'memory': Expected lo <= hi, neither out of reach, got lo 2 and hi 1.",
    ),
    "row that nothing reaches": (
        lambda p: p.add_row([("a", 0, 1.0)], hi=-INF, name="memory"),
        "row 'memory': Expected lo <= hi, neither out of reach, got lo -inf and hi -inf.",
    ),
    "row with a bound of NaN": (
        lambda p: p.add_row([("a", 0, 1.0)], hi=math.nan, name="memory"),
        "row 'memory', hi: Expected a number, got NaN.",
    ),
    "row with a node that is none": (
        lambda p: p.add_row([("a", 0, 1.0), ("d", 0, 1.0)], hi=1, name="memory"),
        "row 'memory', term 1: Expected the name of a node, got 'd'.",
    ),
    "row with a label out of range": (
        lambda p: p.add_row([("a", 0, 1.0), ("b", 2, 1.0)], hi=1, name="memory"),
        "row 'memory', term 1: Expected a label of 'b' below 2, got 2.",
    ),
    "row with a coefficient of inf": (
        lambda p: p.add_row([("a", 0, INF)], hi=1, name="memory"),
        "row 'memory', term 0: Expected a finite coefficient, got inf.",
    ),
    "row with half a term": (
        lambda p: p.add_row([("a", 0)], hi=1, name="memory"),
        "row 'memory', term 0: Expected (node, label, coefficient), got ('a', 0).",
    ),
    "row of unequal arrays": (
        lambda p: p.add_row((np.array([0, 1]), np.array([0]), np.array([1.0])), name="memory"),
        "row 'memory': Expected as many nodes as labels and coefficients, got 2, 1 and 1.",
    ),
    "without what is not there": (
        lambda p: p.without(["no 2", "no 3"]),
        "without: Expected the name of a constraint, got 'no 3'.",
    ),
    "without an edge": (
        lambda p: p.without("ab"),
        "without: Expected the name of a constraint, got that of an edge, 'ab'.",
    ),
    "labels of another number": (
        lambda p: p.check([0, 0]),
        "check: Expected 3 labels, one per node, got 2.",
    ),
    "label that a node lacks": (
        lambda p: p.check([0, 2, 0]),
        "check, node 'b': Expected a label below 2, got 2.",
    ),
    "time limit of nothing": (
        lambda p: solve(p, time_limit=0),
        "solve, time_limit: Expected more than 0 seconds, got 0.",
    ),
    "gap below 0": (
        lambda p: solve(p, relative_gap=-0.1),
        "solve, relative_gap: Expected at least 0, got -0.1.",
    ),
    "another solver": (
        lambda p: solve(p, solver="cbc"),
        "solve, solver: Expected no solver, as there is only the core, got 'cbc'.",
    ),
    "warm start from labels": (
        lambda p: solve(p, warm=[0, 0, 0]),  # type: ignore[arg-type]
        "solve, warm: Expected a Solution, got list.",
    ),
    "progress that is no function": (
        lambda p: solve(p, progress="yes"),  # type: ignore[arg-type]
        "solve, progress: Expected True, False or a function, got 'yes'.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_refused_with_its_place_and_changes_nothing(case: str) -> None:
    problem = _small()
    before = _state(problem)
    call, words = REFUSED[case]
    with pytest.raises(ShardpropError) as caught:
        call(problem)
    assert str(caught.value) == words
    assert _state(problem) == before
    assert problem.allow("b", [0]) == "allow #2 on 'b'"  # no number was used up


def test_taking_the_last_label_names_the_constraints_and_changes_nothing() -> None:
    problem = _small()
    problem.allow("a", [0, 1], name="first two")
    problem.forbid("a", [0], name="not 0")
    before = _state(problem)
    with pytest.raises(InfeasibleError) as caught:
        problem.forbid("a", [1, 2], name="not 1")
    assert caught.value.reasons == ("not 0", "not 1") and caught.value.minimal
    assert caught.value.nodes == ("a",)
    assert "node 'a': Expected a label that is left, got none" in str(caught.value)
    assert "'not 0' forbids label 0 'R' of node 'a'" in str(caught.value)
    assert _state(problem) == before


def test_labels_found_by_hand() -> None:
    problem = _small()
    solution = solve(problem)
    assert solution.labels.dtype == np.int32
    assert solution.labels.tolist()[:2] == [0, 0]
    assert solution.objective == 2.0
    assert solution.label_names()["a"] == "R" and solution.label_names()["b"] == "0"
    found = problem.check(solution.labels)
    assert (found.unary, found.edges, found.violations) == (2.0, 0.0, ())


def test_every_violation_is_a_sentence() -> None:
    problem = _small()
    problem.allow("a", [0], name="only R")
    problem.allow_pairs("a", "b", [(0, 0)], name="pairs")
    problem.equal(["a", "c"], name="same")
    problem.add_row([("a", 1, 3.0), ("b", 1, 4.0)], hi=5, name="memory")
    found = problem.check([1, 1, 2])
    assert found.rows == {"memory": 7.0}
    assert found.objective == INF and found.unary == 8.0
    assert found.violations == (
        "prices of 'ab': label 1 'S(0)' of 'a' with 1 of 'b' is forbidden",
        "'no 2' forbids label 2 of node 'c', got label 2",
        "'only R' allows only label 0 'R' of node 'a', got label 1 'S(0)'",
        "'pairs' allows only 1 of the 6 label pairs of nodes 'a' and 'b', got labels 1 'S(0)', 1",
        "'same' wants equal labels of nodes 'a', 'c', got labels 1 'S(0)', 2",
        "'memory' wants a sum of at most 5, got 7",
    )


def test_an_array_given_again_is_stored_once() -> None:
    problem = Problem()
    prices, classes = np.ones((2, 2)), np.array([0, 1, 1], dtype=np.int32)
    for at in range(50):
        problem.add_node(f"n{at}", [0.0, 1.0, 2.0])
    for at in range(49):
        problem.add_edge(at, at + 1, prices, u_classes=classes, v_classes=classes)
    assert len(problem.tables) == len(problem.classes) == 1
    problem.add_edge(0, 1, prices.copy(), u_classes=classes, v_classes=classes.copy())
    assert len(problem.tables) == len(problem.classes) == 2
    prices[:] = math.nan  # the problem has its own copy
    assert np.isfinite(problem.tables[0]).all()


def test_an_array_that_is_gone_is_not_taken_for_a_later_one() -> None:
    problem = Problem()
    problem.add_node("a", [0.0, 0.0])
    for value in range(200):
        problem.add_edge("a", "a", np.full((2, 2), float(value)))
    assert [table[0, 0] for table in problem.tables] == list(range(200))


def test_shared_classes_are_checked_against_every_table() -> None:
    problem = Problem()
    problem.add_node("a", [0.0, 0.0, 0.0])
    classes = np.array([0, 1, 2])
    problem.add_edge("a", "a", np.zeros((3, 3)), u_classes=classes, v_classes=classes)
    with pytest.raises(ShardpropError, match="Expected u_classes from 0 to 1, got 2"):
        problem.add_edge("a", "a", np.zeros((2, 3)), u_classes=classes, v_classes=classes)


def test_a_copy_goes_its_own_way() -> None:
    problem = _small()
    before = _state(problem)
    other = problem.copy()
    other.add_node("d", [1.0])
    other.add_edge("a", "d", np.zeros((3, 1)))
    other.forbid("a", [0])
    assert _state(problem) == before
    assert other.left[0].tolist() == [False, True, False]
    assert problem.left[0].tolist() == [True, True, False]


def test_without_brings_labels_and_names_back() -> None:
    problem = _small()
    relaxed = problem.without("no 2")
    assert relaxed.left[2].all() and not problem.left[2].all()
    assert list(relaxed.constraints) == [] and list(problem.constraints) == ["no 2"]
    assert relaxed.forbid("c", [1], name="no 2") == "no 2"
    assert relaxed.forbid("c", [0]) == "forbid #3 on 'c'"


def test_default_names_tell_edges_and_constraints_apart() -> None:
    problem = _small()
    zeros = np.zeros((3, 2))
    assert [problem.add_edge(0, 1, zeros) for _ in range(3)] == [
        "a -> b",
        "a -> b (2)",
        "a -> b (3)",
    ]
    assert problem.allow_pairs("a", "b", [(0, 0)]) == "allow_pairs #2 on 'a' and 'b'"
    assert problem.equal(["a", "c"]) == "equal #3 on 'a' and others"
    assert problem.add_row([], hi=1) == "row #4"


def test_an_empty_problem_has_the_empty_answer() -> None:
    solution = solve(Problem())
    assert solution.labels.tolist() == [] and solution.objective == 0 and solution.proved


def test_importing_shardprop_imports_no_solver_and_no_graph() -> None:
    code = (
        "import sys, shardprop\n"
        "assert 'shardprop.graph' not in sys.modules\n"
        "before = set(sys.modules)\n"
        "shardprop.graph.Problem()\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new & {'highspy', 'pydantic', 'scipy', 'rich', 'torch'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
