"""`shardprop bench`: torch beside shardprop, equal decisions, what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

import shardprop
from shardprop import ShardpropError
from shardprop.cli.benchmark import measuring
from shardprop.cli.benchmark.cases import CASES
from shardprop.cli.benchmark.measuring import KINDS, measure
from shardprop.cli.benchmark.request import request_of
from shardprop.propagation import propagator

from .running import refused, run, run_json

KEYS = {"op", "mesh", "kind", "torch_us", "shardprop_us", "ratio", "rounds", "equal"}


def test_json_has_a_row_for_each_question() -> None:
    code, values = run_json("bench", "--mesh", "2", "--mesh", "2x2", "--op", "mm", "--quick")
    assert code == 0
    assert set(values) == {"torch", "python", "machine", "all_equal", "results"}
    assert values["all_equal"] is True
    rows = values["results"]
    assert all(set(row) == KEYS for row in rows)
    asked = [(row["op"], tuple(row["mesh"]), row["kind"]) for row in rows]
    assert asked == [("mm", mesh, kind) for mesh in ((2,), (2, 2)) for kind in KINDS]
    for row in rows:
        assert row["torch_us"] > 0 and row["shardprop_us"] > 0
        assert row["ratio"] == pytest.approx(row["torch_us"] / row["shardprop_us"], rel=0.01)


def test_table_has_the_same() -> None:
    result = run("bench", "--mesh", "2", "--op", "add", "--quick")
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines()]
    assert [row[:3] for row in rows[1:]] == [["add", "2", kind] for kind in KINDS]
    assert all(row[-1] == "equal" for row in rows[1:])


@pytest.mark.parametrize("op", CASES)
@pytest.mark.parametrize("mesh", [(2,), (2, 2)], ids=["1-D", "2-D"])
def test_every_question_is_answered_as_torch_answers_it(
    mesh_of: Any, op: str, mesh: tuple[int, ...]
) -> None:
    assert measure(op, mesh_of(*mesh), "again", rounds=1).equal


def test_a_different_decision_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = propagator.propagate_sharding

    class Wrong:
        @staticmethod
        def propagate_sharding(schema: Any) -> Any:
            decision = decide(schema)
            decision.needs_redistribute = not decision.needs_redistribute
            return decision

        clear_caches = staticmethod(propagator.clear_caches)
        is_enabled = staticmethod(propagator.is_enabled)

    monkeypatch.setattr(measuring, "propagator", Wrong)
    code, values = run_json("bench", "--mesh", "2", "--op", "mm", "--quick")
    assert code == 1
    assert values["all_equal"] is False
    result = run("bench", "--mesh", "2", "--op", "mm", "--quick")
    assert result.exit_code == 1
    assert "DIFFERENT" in result.stdout


def test_torch_is_not_timed_while_shardprop_is_enabled(mesh_of: Any) -> None:
    with shardprop.enabled(), pytest.raises(ShardpropError, match="to be disabled"):
        measure("mm", mesh_of(2), "first", rounds=1)


def test_meshes_are_of_1_to_3_dims_unless_asked_otherwise() -> None:
    def dims(**options: bool) -> list[int]:
        given = {"quick": False, "every_mesh": False, **options}
        return [len(mesh) for mesh in request_of([], [], **given).meshes]

    assert dims() == [1, 2, 3]
    assert dims(quick=True) == [1, 2]
    assert dims(every_mesh=True) == [1, 2, 3, 4]
    assert request_of([(2, 2), (2, 2)], ["mm", "mm"], True, False).ops == ("mm",)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--op", "nosuch"), "--op: Expected one of mm, add, bmm"),
        (("--mesh", "2x"), "--mesh: Expected sizes such as 2x4, got '2x'."),
        (("--mesh", "2x2x2x2x2"), "--mesh: Expected 1 to 4 dims, got '2x2x2x2x2'."),
        (("--all", "--quick"), "Expected --all or --quick, got both."),
        (("--all", "--mesh", "2"), "Expected --all or --mesh, got both."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_request_that_makes_no_sense_ends_with_2(arguments: tuple[str, ...], words: str) -> None:
    assert words in refused("bench", *arguments)
