"""The instances with known optima: solved, proved, and checked by a checker that shares nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from shardprop.errors import ShardpropError
from shardprop.planning.graph import Problem, Solution, load_instance, solve

from .highs_oracle import optimum
from .instance_checker import Checker, instance

# Optimum in microseconds, and how many of its digits were published.
OPTIMA = {
    "llama_1layer_8x8": (36416.75295994, 1e-8),
    "llama_2layer_8x8_mm": (53990.44828767, 1e-8),
    "llama_1layer_8x8_memory": (36231.49, 5e-3),
    "llama_2layer_8x8_strided": (52740.7074, 5e-5),
}

each = pytest.mark.parametrize("name", OPTIMA)


def _assert_optimal(name: str, problem: Problem, solution: Solution) -> None:
    optimum, digits = OPTIMA[name]
    assert solution.objective == pytest.approx(optimum, rel=1e-9, abs=digits)
    assert solution.proved and solution.status == "optimal"
    assert solution.objective - solution.lower_bound <= 1e-9 * solution.objective
    checker = Checker(name)
    labels = {
        checker.names[node.name]: int(label)
        for node, label in zip(problem.nodes, solution.labels, strict=True)
    }
    assert len(labels) == len(checker.names)
    assert checker.broken(labels) == []
    assert checker.cost(labels) == pytest.approx(solution.objective, rel=1e-12)


@pytest.mark.slow
@each
def test_the_core_proves_the_known_optimum(name: str) -> None:
    problem = load_instance(instance(name))
    _assert_optimal(name, problem, solve(problem))


@pytest.mark.slow
@each
def test_a_warm_start_proves_it_as_well(name: str) -> None:
    problem = load_instance(instance(name))
    dropped = [row for row in problem.constraints if "constraint" in row]
    free = solve(problem.without(dropped))
    assert free.objective <= OPTIMA[name][0] + 1
    _assert_optimal(name, problem, solve(problem, warm=free))


@pytest.mark.slow
@each
def test_labels_that_are_not_optimal_are_told_apart(name: str) -> None:
    """The checker is no yes-man: one changed label is dearer, or breaks something."""
    problem = load_instance(instance(name))
    solution = solve(problem)
    checker = Checker(name)
    labels = solution.labels.copy()
    at = next(at for at, left in enumerate(problem.left) if left.sum() > 8)
    labels[at] = (labels[at] + 1) % problem.nodes[at].count
    changed = {
        checker.names[node.name]: int(label)
        for node, label in zip(problem.nodes, labels, strict=True)
    }
    wrong = checker.broken(changed)
    cost = checker.cost(changed)
    assert wrong or cost >= solution.objective - 1e-6
    found = problem.check(labels)
    assert found.feasible == (not wrong and cost < float("inf"))


@pytest.mark.slow
def test_highs_proves_the_same_optimum() -> None:
    problem = load_instance(instance("llama_1layer_8x8"))
    found, expected = optimum(problem), OPTIMA["llama_1layer_8x8"][0]
    assert found is not None
    assert found.objective == pytest.approx(expected, rel=1e-9)
    assert found.lower_bound == pytest.approx(expected, rel=1e-9)


def test_an_instance_survives_our_own_files(tmp_path: Path) -> None:
    problem = load_instance(instance("llama_2layer_8x8_mm").with_suffix(".npz"))
    problem.save(tmp_path / "saved")
    again = Problem.load(tmp_path / "saved.json")
    assert list(again.constraints) == list(problem.constraints)
    assert [node.name for node in again.nodes] == [node.name for node in problem.nodes]
    _assert_optimal("llama_2layer_8x8_mm", again, solve(again))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data.pop("flow"), "$.flow: Expected a list, got nothing."),
        (lambda data: data["flow"].append([15, 0, [16]]), "Expected prices of shape"),
        (
            lambda data: data["flow"].append([15, 0, [9999]]),
            "idx 9999: Expected that of a node, got none",
        ),
        (
            lambda data: data["flow"].insert(0, [15, 0]),
            "$.flow[0][2]: Expected one more item, got nothing.",
        ),
        (lambda data: data["flow"].append([15, 0, []]), "arg 0: Expected a producer, got none."),
        (
            lambda data: data["flow"].append([9999, 0, [16]]),
            "idx 9999: Expected that of a node, got none",
        ),
        (
            lambda data: data["nodes"][3].update(idx="3"),
            '$.nodes[3].idx: Expected a whole number of at least 0, got "3".',
        ),
        (
            lambda data: data["nodes"][3]["out"].pop(),
            "comm_3_0: Expected 8 rows of prices, got (9,",
        ),
        (lambda data: data["user"].append([13, 0, [99], "u"]), "allow 'u': Expected labels from 0"),
        (
            lambda data: data["user"].append([13, 0, [2], "u"]),
            "node 'primals_14': Expected a label",
        ),
        (lambda data: data["nodes"][3].update(nargs=2), "comm_3_1: Expected an array, got none"),
        (lambda data: data["memory"].update(memory={"rhs": 1, "terms": []}), "a name that ends"),
        (
            lambda data: data["nodes"].append(data["nodes"][0]),
            "nodes: Expected each idx once, got one again.",
        ),
    ],
)
def test_a_faulty_instance_is_refused_with_its_place(tmp_path: Path, change, words: str) -> None:
    data = json.loads(instance("llama_1layer_8x8").with_suffix(".json").read_text())
    change(data)
    (tmp_path / "bad.json").write_text(json.dumps(data))
    shutil.copy(instance("llama_1layer_8x8").with_suffix(".npz"), tmp_path / "bad.npz")
    with pytest.raises(ShardpropError) as caught:
        load_instance(tmp_path / "bad")
    assert str(caught.value).startswith(str(tmp_path / "bad.json"))
    assert words in str(caught.value)


def test_a_missing_instance_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ShardpropError, match=r"none\.json: Expected a file that can be read"):
        load_instance(tmp_path / "none")
