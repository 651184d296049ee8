"""`shardprop demo`: its three runs, what it refuses, and the parts it compares with.

The runs are real: a fresh interpreter, shardprop hooked into the installed torch, gloo between
real processes. They start in their own process because a process group is process-wide.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from shardprop.cli import app
from shardprop.cli.decisions import Decision, describe
from shardprop.cli.demo_program.compare import agree
from shardprop.cli.demo_program.gloo import TOLERANCE, gradient_difference
from shardprop.cli.demo_program.llama import LlamaSize
from shardprop.cli.demo_program.settings import Settings, mesh_of
from shardprop.cli.demo_program.train import Trainer
from shardprop.errors import ShardpropError

SMALL = ("--layers", "1", "--steps", "2")


def run_demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line outside the source tree, as a user does."""
    command = [sys.executable, "-m", "shardprop", "demo", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=500, check=False
    )


def demo_values(folder: Path, *arguments: str) -> dict[str, Any]:
    """The JSON that a successful run prints."""
    done = run_demo(folder, *arguments, "--json")
    assert done.returncode == 0, done.stderr[-4000:] or done.stdout[-4000:]
    values = json.loads(done.stdout)
    assert isinstance(values, dict)
    return values


# --- the runs ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_2x2x2_decides_in_the_first_step_and_no_strided_operand_falls_back(tmp_path: Path) -> None:
    # torch alone would take most of an hour, so that this ends at all is part of the test.
    values = demo_values(tmp_path)
    assert values["mesh"] == [2, 2, 2]
    first, *later = values["steps"]
    assert 0 < first["propagation"] < first["total"]
    assert [step["decisions"] for step in later] == [0] * len(later)
    stats = values["stats"]
    assert stats["decisions"] > 40
    assert stats["strided_operands"] > 20
    assert stats["strided_fallbacks"] == 0
    assert stats["fallbacks"] == {}


@pytest.mark.slow
def test_activations_stay_finite_on_the_fake_backend(tmp_path: Path) -> None:
    assert all(map(math.isfinite, demo_values(tmp_path, *SMALL)["fake_losses"]))


@pytest.mark.slow
def test_text_reports_times_counts_and_says_that_fake_losses_mean_nothing(tmp_path: Path) -> None:
    done = run_demo(tmp_path, "--mesh", "2x2", *SMALL)
    assert done.returncode == 0, done.stderr
    for expected in (
        "mesh 2x2 (dp, tp)",
        "first step",
        "in propagation",
        "made by the core",
        "delegated",
        "fell back",
        "strided operands",
        "they mean nothing",
    ):
        assert expected in done.stdout
    assert "step 2/2" in done.stderr, "the progress display goes to stderr"


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["2", "2x2"])
def test_every_decision_equals_torch_alone(tmp_path: Path, mesh: str) -> None:
    values = demo_values(tmp_path, "--mesh", mesh, "--compare", *SMALL)
    assert values["all_equal"] is True
    assert values["different"] == []
    assert values["equal"] > 100
    assert values["torch"]["steps"][0]["decisions"] > 100


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["1x2x2", "2x1x1x2"])
def test_gloo_processes_match_a_single_device(tmp_path: Path, mesh: str) -> None:
    values = demo_values(tmp_path, "--gloo", "4", "--mesh", mesh, *SMALL)
    assert values["equal"] is True
    assert values["loss_difference"] <= TOLERANCE
    assert values["gradient_difference"] <= TOLERANCE
    assert values["decisions"] > 40
    assert values["strided_operands"] > 0
    assert values["strided_fallbacks"] == 0
    assert values["losses"][1] < values["losses"][0], "AdamW makes progress"


# --- what it refuses --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mesh", "2x0"], "--mesh: Expected sizes such as 2x4, got '2x0'"),
        (["--mesh", "abc"], "sizes such as 2x4, got 'abc'"),
        (["--mesh", ""], "sizes such as 2x4, got ''"),
        (["--mesh", "2x"], "sizes such as 2x4"),
        (["--mesh", "-2x2"], "sizes such as 2x4"),
        (["--mesh", "٢x٢"], "sizes such as 2x4"),
        (["--mesh", "2x2x2x2x2"], "1 to 4 dims, got 5"),
        (["--mesh", "9999x9999"], "at most 8 dims and 4096 ranks, got '9999x9999'"),
        (["--mesh", "2x3"], "heads to be a multiple of the tp mesh dim (3), got 4"),
        (["--mesh", "3x2"], "batch to be a multiple of"),
        (["--mesh", "2x3x2"], "seq to be a multiple of"),
        (["--dim", "10"], "dim to be a multiple of heads (4), got 10"),
        (["--dim", "12"], "even head size"),
        (["--layers", "0"], "layers of at least 1, got 0"),
        (["--heads", "0"], "heads of at least 1, got 0"),
        (["--steps", "0"], "at least 1 step, got 0"),
        (["--gloo", "3", "--mesh", "2x2"], "--gloo 4 for mesh 2x2, got --gloo 3"),
        (["--gloo", "0"], "--gloo from 1 to 64, got 0"),
        (["--gloo", "4", "--compare"], "--compare or --gloo, got both"),
        (["--compare", "--mesh", "2x2x2"], "about an hour"),
        (["--mesh"], "requires an argument"),
        (["--gloo", "many"], "valid integer"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_input_is_refused_with_code_2(arguments: list[str], message: str) -> None:
    result = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, ["demo", *arguments])
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output


# --- the parts --------------------------------------------------------------------------------


def test_mesh_dims_have_names() -> None:
    settings = Settings((2, 2, 4), LlamaSize())
    assert (settings.names, settings.ranks) == (("dp", "sp", "tp"), 16)
    assert settings.headline.startswith("mesh 2x2x4 (dp, sp, tp), 2 blocks of dim 64")


def test_model_that_the_mesh_does_not_divide_is_refused() -> None:
    with pytest.raises(ShardpropError, match="vocab"):
        Settings((2,), LlamaSize(vocab=257))


@pytest.mark.parametrize(
    ("text", "compare", "processes", "force", "sizes"),
    [
        (None, False, None, False, (2, 2, 2)),
        (None, True, None, False, (4, 2)),
        (None, False, 6, False, (2, 3)),
        ("1x2x2", False, 4, False, (1, 2, 2)),
        ("2x2x2", True, None, True, (2, 2, 2)),
    ],
)
def test_the_mesh_is_the_one_asked_for_or_the_usual_one(
    text: str | None, compare: bool, processes: int | None, force: bool, sizes: tuple[int, ...]
) -> None:
    assert mesh_of(text, compare=compare, processes=processes, force=force) == sizes


def test_the_model_learns_on_a_single_device_and_is_reproducible() -> None:
    settings = Settings((1,), LlamaSize(layers=1))
    runs = [Trainer(settings, None, torch.float64) for _ in range(2)]
    first, second = ([trainer.step().item() for _ in range(3)] for trainer in runs)
    assert first == second
    assert first[2] < first[1] < first[0]


def test_tokens_see_only_the_past() -> None:
    settings = Settings((1,), LlamaSize(layers=2))
    trainer = Trainer(settings, None, torch.float64)
    changed = trainer.tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % settings.model.vocab
    before, after = trainer.model(trainer.tokens), trainer.model(changed)
    assert torch.equal(before[:, :-1], after[:, :-1])
    assert not torch.equal(before[:, -1], after[:, -1])


def test_gradient_difference_is_relative_and_catches_nan_and_absence() -> None:
    wanted = torch.tensor([100.0, 1.0])
    assert gradient_difference(wanted, wanted) == 0
    assert gradient_difference(wanted + torch.tensor([0.0, 1.0]), wanted) == pytest.approx(0.01)
    assert gradient_difference(torch.tensor([float("nan"), 1.0]), wanted) == float("inf")
    assert gradient_difference(None, wanted) == float("inf")
    assert gradient_difference(None, None) == 0


def test_description_keeps_types_apart_that_compare_equal() -> None:
    assert len({describe((value,)) for value in (1, 1.0, True)}) == 3
    assert describe([1]) != describe((1,))
    assert describe(ValueError("a")) != describe(RuntimeError("a"))


def decision(question: str, answer: str) -> Decision:
    """A decision that needs no torch schema."""
    return Decision(None, question, answer)  # type: ignore[arg-type]


def never(asked: Decision) -> Decision:
    raise AssertionError(f"{asked.question} was settled already")


def test_runs_that_agree_are_not_asked_again() -> None:
    run = [decision("a", "1"), decision("b", "2"), decision("a", "3")]
    found = agree(run, run, never, never)
    assert (found.equal, found.equal_once_torch_history_is_cleared, found.all_equal) == (3, 0, True)
    assert found.same_order


def test_answer_from_torchs_planner_history_is_settled_by_asking_torch_afresh() -> None:
    found = agree([decision("a", "1")], [decision("a", "2")], never, lambda d: decision("a", "1"))
    assert (found.equal, found.equal_once_torch_history_is_cleared, found.all_equal) == (0, 1, True)


def test_answer_that_torch_never_gives_is_different() -> None:
    found = agree([decision("a", "1")], [decision("a", "2")], never, lambda d: decision("a", "2"))
    assert not found.all_equal
    assert (found.different[0].shardprop, found.different[0].torch) == ("1", "2")


def test_questions_of_one_run_only_are_put_to_the_other_side() -> None:
    ours, theirs = (
        [decision("a", "1"), decision("b", "1")],
        [decision("a", "1"), decision("c", "1")],
    )
    asked: list[object] = []

    def torch_answers(d: Decision) -> Decision:
        asked.append(d.question)
        return decision(str(d.question), "1")

    found = agree(ours, theirs, lambda d: decision(str(d.question), "wrong"), torch_answers)
    assert asked == ["b", "c"]
    assert [difference.question for difference in found.different] == ["c"]
    assert not found.same_order
