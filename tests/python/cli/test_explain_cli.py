"""`shardprop explain`: what it is asked, what it prints, how it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import shardprop
from shardprop import ShardpropError
from shardprop.cli import app
from shardprop.cli.explain import _overload
from shardprop.cli.fitting import fits
from shardprop.cli.notation import arguments

from .running import refused, run, run_json

aten = torch.ops.aten
MM = ("mm", "f32[512,1024]@S(0),R", "f32[1024,64]@R,S(0)", "--mesh", "2x4")
OPTIMAL = ("--policy", "optimal", "--topology", "h100-nvlink")
# It cannot be taken of a pending sum, and an in-place op keeps its placement.
NO_DECISION = ("relu_", "f32[8]@P", "--mesh", "4")


def test_text_names_the_op_and_ends_with_0() -> None:
    result = run("explain", *MM, "--mesh-dims", "dp,tp")
    assert result.exit_code == 0, result.output
    assert "aten.mm.default" in result.stdout
    assert "tp" in result.stdout


def test_prose_is_as_wide_as_columns_says() -> None:
    result = CliRunner(env={"COLUMNS": "60"}).invoke(app, ["explain", *MM])
    _, found, prose = result.stdout.partition("why: ")
    assert found and max(map(len, prose.splitlines())) in range(50, 61)


@pytest.mark.parametrize("policy", [(), OPTIMAL], ids=["torch", "optimal"])
def test_json_is_the_document_of_an_explanation(policy: tuple[str, ...]) -> None:
    code, values = run_json("explain", *MM, *policy)
    assert code == 0
    assert values["schema"] == "shardprop/explanation/1"


def test_an_op_without_a_decision_is_explained_and_ends_with_1() -> None:
    code, values = run_json("explain", *NO_DECISION)
    assert code == 1
    assert values["error"]


def test_the_candidates_are_drawn_into_a_file(tmp_path: Path) -> None:
    run("explain", *MM, "--plot", str(tmp_path / "mm.svg"))
    assert "◀ chosen" in (tmp_path / "mm.svg").read_text(encoding="utf-8")
    assert "ends in .svg" in refused("explain", *MM, "--plot", str(tmp_path / "mm.png"))
    assert "can be written" in refused("explain", *MM, "--plot", str(tmp_path / "no" / "mm.svg"))


def test_a_rule_of_a_file_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "explained_ops.py"
    file.write_text(
        "import torch, shardprop\n"
        "@torch.library.custom_op('shardprop_explained::half', mutates_args=())\n"
        "def half(x: torch.Tensor) -> torch.Tensor:\n"
        "    return x / 2\n"
        "half.register_fake(lambda x: torch.empty_like(x))\n"
        "shardprop.register_rule(torch.ops.shardprop_explained.half.default, 'm -> m')\n"
    )
    with shardprop.temporary_rules():
        result = run(
            *("explain", "shardprop_explained::half", "f32[8]@S(0)"),
            *("--mesh", "4", "--module", str(file)),
        )
    assert result.exit_code == 0, result.output
    assert "shardprop_explained.half.default" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nosuchop", "f32[4]", "--mesh", "2"), "Expected the name of an op"),
        (("mm", "f32[4]@Q", "--mesh", "2"), "Expected 1 placements"),
        (("mm", "f32[4]", "--mesh", "2x"), "--mesh: Expected sizes such as 2x4, got '2x'."),
        (("mm", "f32[4]", "--mesh", "2", "--mesh-dims", "a,b"), "Expected 1 different names"),
        (("mm", "f32[4]", "--mesh", "2", "--policy", "best"), "Expected"),
        (("mm", "f32[4]", "--mesh", "2", "--policy", "optimal"), "Expected --topology"),
        (("mm", "f32[4]", "--mesh", "2", "--topology", "h100-nvlink"), "Expected --policy optimal"),
        ((*MM, "--policy", "optimal", "--topology", "nosuch"), "Expected a preset"),
        (("mm", "f32[4]", "--mesh", "2", "--module", "nothing.py"), "where there is none."),
        (("mm", "--nosuch", "--mesh", "2"), "Expected an option that there is, got '--nosuch'."),
        ((), "Missing argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_request_that_makes_no_sense_ends_with_2(arguments: tuple[str, ...], words: str) -> None:
    assert words in refused("explain", *arguments)


@pytest.mark.parametrize(
    ("name", "texts", "op"),
    [
        ("add", ("f32[4]@R", "f32[4]@R"), aten.add.Tensor),
        ("add", ("f32[4]@R", "1"), aten.add.Scalar),
        ("sum", ("f32[4,4]@R",), aten.sum.default),
        ("sum", ("f32[4,4]@R", "[0]"), aten.sum.dim_IntList),
        ("aten.sum", ("f32[4,4]@R", "dim=[0]"), aten.sum.dim_IntList),
        ("cat", ("[f32[4]@R, f32[4]@R]", "0"), aten.cat.default),
        ("softmax.int", ("f32[4]@R", "-1"), aten.softmax.int),
    ],
)
def test_the_overload_is_the_one_that_takes_the_arguments(
    mesh_of: Any, name: str, texts: tuple[str, ...], op: Any
) -> None:
    args, kwargs = arguments(texts, mesh_of(2))
    assert _overload(name, args, kwargs) is op
    assert fits(op, args, kwargs)


def test_an_overload_that_cannot_be_told_is_asked_for(mesh_of: Any) -> None:
    with pytest.raises(ShardpropError, match=r"Name one of them"):
        _overload("add", [], {})
