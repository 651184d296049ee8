"""`shardprop coverage`: what it lists, its filters, its JSON, its exit codes, its percentages."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from shardprop import _torch
from shardprop.cli import app, coverage_table
from shardprop.cli.coverage_table import Coverage, Decider
from shardprop.propagation.route import Route, Who
from shardprop.rules.torch_registry import TorchsWay

# At least this share must be decided by the core, by torch's rules or by ours.
LEAST_BY_RULE_PERCENT = {"2.13": (53.0, 77.3), "2.15": (55.6, 80.5)}

FIELDS: dict[str, type | tuple[type, ...]] = {
    "op": str,
    "decider": str,
    "how": (str, type(None)),
    "composite": bool,
    "metadata": str,
    "metadata_reason": str,
}


@pytest.fixture(scope="module")
def found() -> Coverage:
    return coverage_table.coverage()


def run(*options: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["coverage", *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def run_json(*options: str) -> tuple[int, Any]:
    code, output = run("--json", *options)
    return code, json.loads(output)


def version() -> str:
    return ".".join(torch.__version__.split(".")[:2])


def test_no_op_falls_back(found: Coverage) -> None:
    assert [op.op for op in found.decided_by(Decider.FALLBACK).ops] == []


def test_most_ops_have_a_rule(found: Coverage) -> None:
    least, least_usual = LEAST_BY_RULE_PERCENT[version()]
    # Others may have been registered in this process before.
    torchs = Coverage(tuple(op for op in found.ops if op.op.startswith(("aten.", "prims."))))
    for part, bound in ((torchs, least), (torchs.reached_always(), least_usual)):
        assert part.percent(Decider.CORE_RULE) + part.percent(Decider.OWN_RULE) >= bound


def test_every_op_with_a_rule_of_any_kind_is_listed(found: Coverage) -> None:
    prop = _torch.propagator()
    rules = {*prop.op_single_dim_strategy_funcs, *prop.op_strategy_funcs, *prop.op_to_rules}
    assert {str(op) for op in rules} <= {op.op for op in found.ops}


def test_ops_that_torch_would_decompose_are_listed_and_factories_are_not(found: Coverage) -> None:
    listed = {op.op: op for op in found.ops}
    assert not listed["aten.mse_loss.default"].composite
    assert listed["aten.linear.default"].composite
    assert "aten.zeros.default" not in listed


def test_no_op_is_listed_twice(found: Coverage) -> None:
    names = [op.op for op in found.ops]
    assert names == sorted(set(names))


def test_exceptions_are_ops_that_do_fall_back(found: Coverage) -> None:
    fallbacks = {op.op for op in found.decided_by(Decider.FALLBACK).ops}
    assert set(coverage_table.EXCEPTIONS) <= fallbacks
    assert all(len(reason) > 10 for reason in coverage_table.EXCEPTIONS.values())


def test_json_has_a_summary_that_adds_up_and_a_row_per_op(found: Coverage) -> None:
    _, values = run_json()
    assert set(values) == {"torch", "total", "deciders", "fallbacks", "gaps", "ops"}
    assert values["torch"] == torch.__version__
    assert values["total"] == len(values["ops"]) == len(found.ops) > 2_000
    deciders = values["deciders"]
    assert set(deciders) == {decider.value for decider in Decider}
    for name, share in deciders.items():
        rows = [row for row in values["ops"] if row["decider"] == name]
        assert share["ops"] == len(rows)
        assert share["percent"] == pytest.approx(100 * len(rows) / values["total"], abs=0.005)
    assert sum(share["ops"] for share in deciders.values()) == values["total"]
    assert sum(values["fallbacks"].values()) == deciders["fallback"]["ops"]
    for row in values["ops"]:
        assert set(row) == {*FIELDS, "exception"}
        assert all(isinstance(row[name], kind) for name, kind in FIELDS.items()), row
        assert row["metadata_reason"]
    means = {row["metadata"] for row in values["ops"]}
    assert means == {"closed form", "meta tensors", "fake tensors"}


def test_op_filters_by_a_part_of_the_name() -> None:
    _, values = run_json("--op", "_softmax")
    names = [row["op"] for row in values["ops"]]
    assert "aten._softmax.default" in names
    assert all("_softmax" in name for name in names)
    assert values["total"] == len(names)


@pytest.mark.parametrize("who", ["core rule", "core"])
def test_who_filters_the_rows_and_not_the_percentages(who: str) -> None:
    _, everything = run_json("--op", "mm")
    _, values = run_json("--op", "mm", "--who", who)
    rows = values.pop("ops")
    assert rows == [row for row in everything.pop("ops") if row["decider"] == "core rule"] != []
    assert values == everything


def test_table_shows_what_json_says() -> None:
    code, output = run("--op", "aten.mm.default")
    assert code == 0
    lines = [line.split() for line in output.splitlines()]
    assert ["aten.mm.default", "core", "rule", "closed", "form"] in lines
    assert ["core", "rule", "1", "100.00", "1", "100.00"] in lines


def test_exit_code_is_0_where_nothing_falls_back() -> None:
    assert run("--op", "aten.mm.")[0] == 0


def test_exit_code_is_1_where_an_op_falls_back_unless_there_is_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_torch = Route(torch.ops.aten.mm.default, Who.TORCH, way=TorchsWay.PROPAGATION_RULE)
    monkeypatch.setattr(coverage_table, "route_of", lambda op: by_torch)
    code, output = run("--op", "aten.mm.default")
    assert code == 1
    monkeypatch.setitem(coverage_table.EXCEPTIONS, "aten.mm.default", "a reason that is shown")
    code, output = run("--op", "aten.mm.default")
    assert code == 0
    assert "a reason that is shown" in output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--op", "no such op"), "no such op"),
        (("--who", "nobody"), "Expected one of core rule"),
        (("--who", "c"), "Expected one of core rule"),
    ],
    ids=["unknown op", "unknown decider", "ambiguous decider"],
)
def test_exit_code_is_2_where_the_request_makes_no_sense(
    options: tuple[str, ...], words: str
) -> None:
    code, output = run(*options)
    assert code == 2
    assert words in output


def test_help_documents_the_exit_codes_and_the_deciders() -> None:
    code, output = run("--help")
    assert code == 0
    assert all(f"{number}:" in output for number in (0, 1, 2))
    assert all(f"{decider.value}:" in output for decider in Decider)
