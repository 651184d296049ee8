"""Problems in files: they come back as they were, and faults are told with file and place."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardprop.errors import ShardpropError
from shardprop.planning.graph import Problem

from .drawn import drawn


def _state(problem: Problem) -> Any:
    values, arrays = problem.to_arrays()
    return values, {name: (array.dtype, array.tolist()) for name, array in arrays.items()}


def _every_kind() -> Problem:
    problem = Problem()
    problem.add_node("a", [0.1, math.inf], labels=["R", "S(0)"])
    problem.add_node("b", [1 / 3, 2.0])
    table, classes = np.array([[0.0, math.inf]]), np.array([0, 0])
    problem.add_edge("a", "b", table, u_classes=classes)
    problem.add_edge("b", "a", np.eye(2), name="back")
    problem.add_edge("b", "a", table, u_classes=classes)
    problem.allow("b", [0, 1])
    problem.forbid("b", [1], name="no 1")
    problem.allow_pairs("a", "b", [(0, 0), (1, 1)])
    problem.equal(["a", "b"])
    problem.add_row([("a", 0, 0.1), ("b", 1, -2.5)], hi=1e9)
    problem.add_row([("a", 0, 0.1)], lo=-1.0, name="at least")
    return problem


def test_every_kind_comes_back_as_it_was(tmp_path: Path) -> None:
    problem = _every_kind()
    problem.save(tmp_path / "v1.5 saved")
    assert {path.name for path in tmp_path.iterdir()} == {"v1.5 saved.json", "v1.5 saved.npz"}
    again = Problem.load(tmp_path / "v1.5 saved")
    assert _state(again) == _state(problem)
    assert len(again.tables) == 2 and len(again.classes) == 1  # what was shared still is
    assert [left.tolist() for left in again.left] == [left.tolist() for left in problem.left]


@pytest.mark.parametrize("seed", range(50))
def test_random_problems_come_back_as_they_were(seed: int) -> None:
    problem = drawn(seed).problem()
    assert _state(Problem.from_arrays(*problem.to_arrays())) == _state(problem)


def test_an_empty_problem_comes_back(tmp_path: Path) -> None:
    Problem().save(tmp_path / "empty.json")
    assert len(Problem.load(tmp_path / "empty.npz").nodes) == 0


def _change_edge(values: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["edges"][0, 2] = 7


FAULTS: dict[str, tuple[Callable[[dict[str, Any], dict[str, Any]], object], str]] = {
    "another format": (lambda v, a: v.update(format="onnx"), "format: Expected 'shardprop graph"),
    "a later version": (lambda v, a: v.update(version=2), "version 1, got"),
    "no nodes": (lambda v, a: v.pop("nodes"), "$.nodes: Expected a list, got nothing."),
    "a node without a name": (
        lambda v, a: v["nodes"][1].clear(),
        "$.nodes[1].name: Expected a text, got nothing.",
    ),
    "a node that is no object": (
        lambda v, a: v["nodes"].__setitem__(0, 3),
        "nodes[0]: Expected an",
    ),
    "labels that are no list": (
        lambda v, a: v["nodes"][0].update(labels="RS"),
        '$.nodes[0].labels: Expected a list, got "RS".',
    ),
    "a node too many": (
        lambda v, a: v["nodes"].append({"name": "z"}),
        "nodes: Expected 2 entries, got 3.",
    ),
    "an unknown kind": (
        lambda v, a: v["constraints"][0].update(kind="prefer"),
        "$.constraints[0]: Input tag 'prefer' found using 'kind' does not match any of the "
        "expected tags: 'allow', 'forbid', 'allow_pairs', 'equal', 'row', got an object.",
    ),
    "a row with a label too few": (
        lambda v, a: v["constraints"][4]["labels"].pop(),
        "row 'row #5': Expected as many nodes as labels and coefficients, got 2, 1 and 2.",
    ),
    "a bound that is a word": (
        lambda v, a: v["constraints"][4].update(hi="much"),
        '$.constraints[4].hi: Expected a number, got "much".',
    ),
    "a part that a kind needs": (
        lambda v, a: v["constraints"][4].pop("labels"),
        "$.constraints[4].labels: Expected a list, got nothing.",
    ),
    "a part that a kind lacks": (
        lambda v, a: v["constraints"][0].update(hi=1),
        "$.constraints[0].hi: Expected one of the keys kind, name, node, labels, got an unknown",
    ),
    "a label out of range": (
        lambda v, a: v["constraints"][0].update(labels=[2]),
        "Expected labels from 0 to 1, got 2 at [0].",
    ),
    "no costs": (lambda v, a: a.pop("costs"), "arrays: Expected one named 'costs', got none."),
    "costs too few": (
        lambda v, a: a.update(costs=a["costs"][:-1]),
        "array 'costs': Expected 4 values, got shape (3,).",
    ),
    "costs of words": (
        lambda v, a: a.update(costs=a["costs"].astype(str)),
        "array 'costs': Expected another dtype, got <U32.",
    ),
    "NaN in a table": (
        lambda v, a: a["tables"].__setitem__(0, math.nan),
        "(node 0 'a' x node 1 'b'): Expected prices that are numbers, got NaN at [0, 0].",
    ),
    "an edge without its table": (_change_edge, "edges[0]: Expected indices of table and classes"),
    "edges of four columns": (
        lambda v, a: a.update(edges=a["edges"][:, :4]),
        "edges: Expected an array [edges, 5], got shape (3, 4).",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_told_with_the_file_and_the_place(tmp_path: Path, case: str) -> None:
    values, arrays = _every_kind().to_arrays()
    change, words = FAULTS[case]
    change(values, arrays)
    (tmp_path / "bad.json").write_text(json.dumps(values))
    savez: Any = np.savez  # its other argument is a flag, which no array is named for
    savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ShardpropError) as caught:
        Problem.load(tmp_path / "bad")
    assert str(caught.value).startswith(f"{tmp_path / 'bad.json'}: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("document", "data", "words"),
    [
        (None, b"", "p.json: Expected a file that can be read, got: No such file"),
        (b"{", b"", "p.json: Expected JSON, got this at line 1, column 2: Expecting prop"),
        (b"\xff", b"", "p.json: Expected JSON in UTF-8, got bytes that are not."),
        (b"{}", None, "p.npz: Expected a file that can be read, got No such file"),
        (b"{}", b"no zip", "p.npz: Expected an NPZ file without pickled objects, got"),
        (b"{}", b"PK\x03\x04", "p.npz: Expected an NPZ file without pickled objects, got"),
        (b"[]", "empty", "p.json: Expected an object, got a list."),
    ],
)
def test_files_that_are_none_are_refused(tmp_path: Path, document, data, words: str) -> None:
    if document is not None:
        (tmp_path / "p.json").write_bytes(document)
    if data == "empty":
        np.savez(tmp_path / "p.npz")
    elif data is not None:
        (tmp_path / "p.npz").write_bytes(data)
    with pytest.raises(ShardpropError) as caught:
        Problem.load(tmp_path / "p")
    assert words in str(caught.value)


def test_pickled_arrays_are_not_read(tmp_path: Path) -> None:
    values = _every_kind().to_arrays()[0]
    (tmp_path / "p.json").write_text(json.dumps(values))
    np.savez(tmp_path / "p.npz", costs=np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ShardpropError, match="without pickled objects"):
        Problem.load(tmp_path / "p")


def test_a_path_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(ShardpropError, match=r"p\.json: Expected a file that can be written, got"):
        _every_kind().save(tmp_path / "absent" / "p")
