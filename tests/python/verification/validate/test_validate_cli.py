"""`shardprop validate` as it is typed: exit codes, JSON, a module of the user's, scripts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from shardprop.cli import app

# One job, one mesh: what is tried is tested elsewhere.
QUICK = ("--jobs", "1", "--ranks", "2", "--composed", "none", "--no-missing", "--no-strided")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["validate", *arguments])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "Expected names of ops, --all, --module FILE or --plans, got none of them."),
        (("nosuchop",), "Expected the name of an op, such as aten.mm.default"),
        (("sofmax",), "softmax"),
        (("mm", "--all"), "Expected names of ops or --all, got both."),
        (("mm", "--ranks", "two"), "Expected --ranks with numbers of ranks from 2 to 16"),
        (("mm", "--ranks", "1"), "Expected --ranks with numbers of ranks from 2 to 16"),
        (("mm", "--composed", "2"), "Expected --composed with two sizes or none, got 2."),
        (("mm", "--rule", "ours"), "Expected --rule active or torch, got 'ours'."),
        (("mm", "--jobs", "0"), "Expected --jobs of 1 or more, got 0."),
        (("mm", "--time-limit", "0"), "Expected a --time-limit above 0, got 0."),
        (("mm", "--samples", "nothing.py"), "got 'nothing.py', where there is none."),
        (("--module", "nothing.py"), "got 'nothing.py', where there is none."),
        (("mm", "--repro", __file__), "Expected --repro to be a directory"),
    ],
)
def test_a_request_that_makes_no_sense_ends_with_2(
    arguments: tuple[str, ...], message: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr and result.stderr.startswith("Error: ")
    assert result.stdout == ""


def test_rules_that_hold_end_with_0() -> None:
    result = run("relu.default", "mm.default", *QUICK)
    assert result.exit_code == 0, result.output
    assert "aten.mm.default" in result.stdout
    assert "no unsound row" in result.stdout


@pytest.mark.slow
def test_torchs_rules_are_tried_too() -> None:
    result = run("mm.default", "--rule", "torch", "--json", *QUICK)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["settings"]["rule"] == "torch"
    (report,) = found["ops"]
    assert report["rule"].startswith("torch ") and report["rows"] >= 3 and report["checks"] > 0


def test_an_op_that_nothing_is_known_of_is_not_passed_over(tmp_path: Path) -> None:
    nothing = tmp_path / "no_samples.py"
    nothing.write_text("def samples(op):\n    return []\n")
    result = run("mm.default", "--samples", str(nothing), *QUICK)
    assert result.exit_code == 1
    assert "no call is known that it takes; give some with --samples FILE" in result.stdout


def test_an_op_of_which_nothing_can_be_said_is_not_passed_over() -> None:
    result = run("randn_like.default", *QUICK)
    assert result.exit_code == 1
    assert "  draws random numbers (1): aten.randn_like.default\n" in result.stdout


def test_among_all_ops_one_of_which_nothing_can_be_said_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ops = [torch.ops.aten.relu.default, torch.ops.aten.empty_like.default]
    monkeypatch.setattr("shardprop.verification.request.ops_decided", lambda: ops)
    result = run("--all", "--json", *QUICK)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["summary"]["untried"] == {"uninitialised memory": 1}
    assert found["summary"]["errors"] == 0
    assert [op["untried"] for op in found["ops"]] == ["uninitialised memory", None]


def test_a_written_call_is_tried() -> None:
    result = run("dropout.default", "--json", *QUICK)
    assert result.exit_code == 0, result.output
    (report,) = json.loads(result.stdout)["ops"]
    assert report["calls"] == 3 and report["rows"] > 0


def test_a_generator_of_calls_is_asked_in_the_workers(tmp_path: Path) -> None:
    own = tmp_path / "own_calls.py"
    own.write_text(
        "import torch\n"
        "def samples(op):\n"
        "    print('this is not part of the JSON')\n"
        "    yield (torch.ones(4, 6), torch.ones(6, 2)), {}\n"
        "    yield (torch.ones(2, 2), torch.ones(2, 2)), {}\n"
    )
    result = run("mm.default", "--samples", str(own), "--json", *QUICK)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["ops"][0]["calls"] == 2


MODULE = """
import shardprop
import torch
from shardprop import Partial, Replicate, Shard


@torch.library.custom_op("shardprop_cli::scale", mutates_args=())
def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


@torch.library.custom_op("shardprop_cli::square", mutates_args=())
def square(x: torch.Tensor) -> torch.Tensor:
    return x * x


scale.register_fake(lambda x, factor: torch.empty_like(x))
square.register_fake(torch.empty_like)


@shardprop.register_single_dim_rule(scale)
def scale_rule(op, args, kwargs):
    shards = [[Shard(dim), Shard(dim)] for dim in range(len(args[0].shape))]
    return [*shards, [Partial("sum"), Partial("sum")]]


@shardprop.register_single_dim_rule(square)
def square_rule(op, args, kwargs):
    return [[Shard(0), Shard(0)], [Partial("sum"), Partial("sum")]]
"""


@pytest.mark.slow
def test_a_module_with_a_right_and_a_wrong_rule(tmp_path: Path) -> None:
    # A process of its own, for the ops and their rules would stay.
    (tmp_path / "my_ops.py").write_text(MODULE)
    command = [sys.executable, "-m", "shardprop", "validate", "--module", "my_ops.py", "--json"]
    command += ["--repro", "scripts", *QUICK]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    scale, square = json.loads(done.stdout)["ops"]
    assert (scale["op"], square["op"]) == (
        "shardprop_cli.scale.default",
        "shardprop_cli.square.default",
    )
    assert scale["rule"] == square["rule"] == "registered rule"
    assert scale["findings"] == [] and scale["error"] is None and scale["rows"] >= 3
    found = {finding["kind"]: finding["rows"] for finding in square["findings"]}
    assert found == {"unsound": ["P(sum) -> P(sum)"], "wrong": ["P(sum) -> P(sum)"]}
    assert len(square["findings"]) == 2 and scale["runs"] > 0 == scale["gradients"]
    script = tmp_path / "scripts" / "shardprop_cli.square.default_unsound_1.py"
    shown = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert shown.returncode == 1, shown.stderr
    assert shown.stdout.startswith("the ranks together: ") and "not close" in shown.stderr
