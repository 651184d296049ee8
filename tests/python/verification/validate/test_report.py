"""What is printed, what is JSON, and the exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from shardprop.verification.settings import Settings
from shardprop.verification.validate.report import exit_code, print_reports, values, write_scripts
from shardprop.verification.validate.repro import DEFINE_HERE
from shardprop.verification.validate.results import Finding, OpReport

UNSOUND = Finding(
    "unsound", ("P(sum), P(sum) -> P(sum)",), (2,), "mul(f64[4], f64[4])", "off by 3", "print(1)"
)
MISSING = Finding("missing", ("P(max) -> P(max)",), (3,), "relu(f64[4])", "holds")
GOOD = OpReport("aten.mm.default", "torch single-dim rule", calls=3, rows=4, checks=50)
WRONG = OpReport("aten.mul.Tensor", "registered rule", 2, 7, [UNSOUND, MISSING], calls=1)
CRASHED = OpReport("aten.sort.default", error="crashed: signal 11")
LACKING = OpReport("aten.relu.default", "own rule", 2, 7, [MISSING], calls=1)
RANDOM = OpReport("aten.randn_like.default", untried="draws random numbers")
SPARSE = OpReport("aten.smm.default", untried="sparse or nested tensors")

RUN = Finding("wrong", ("S(0) -> P(avg)",), (2,), "mse(f64[4])", "gradient of self: off by 3")
RAN = OpReport("aten.mse_loss.default", "decomposition", findings=[RUN], runs=12, gradients=20)


@pytest.mark.parametrize(
    "reports, code",
    [
        ([], 0),
        ([GOOD], 0),
        ([GOOD, LACKING], 0),
        ([GOOD, WRONG], 1),
        ([CRASHED, GOOD], 1),
        ([RAN], 1),
    ],
)
def test_the_exit_code_tells_whether_all_rules_hold(reports: list[OpReport], code: int) -> None:
    assert exit_code(reports) == code


def test_an_op_of_which_there_is_nothing_to_try_is_an_error_where_it_was_asked_for() -> None:
    assert exit_code([GOOD, RANDOM], by_name=True) == 1
    assert exit_code([GOOD, RANDOM], by_name=False) == 0
    assert exit_code([CRASHED, RANDOM], by_name=False) == 1


def test_ops_of_which_there_is_nothing_to_try_are_told_by_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_reports([*[GOOD] * 100, CRASHED, SPARSE, RANDOM, RANDOM], 1.0)
    text = capsys.readouterr().out
    assert "and 100 ops of which nothing was found" in text
    lines = text.splitlines()
    at = lines.index("Nothing to try on dense tensors of the CPU:")
    assert lines[at + 1].startswith("  draws random numbers (2): aten.randn_like.default, ")
    assert lines[at + 2] == "  sparse or nested tensors (1): aten.smm.default"
    assert lines[-1].endswith(
        "; 3 ops of which there is nothing to try; 1 op not tried to its end (1.0% of all)."
    )
    found = values([GOOD, SPARSE, RANDOM, RANDOM], Settings(), 1.0)["summary"]
    assert isinstance(found, dict)
    assert found["untried"] == {"draws random numbers": 2, "sparse or nested tensors": 1}
    assert found["errors"] == 0


def test_findings_are_printed_below_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_reports([GOOD, WRONG, CRASHED], 1.5)
    text = capsys.readouterr().out
    assert "unsound: P(sum), P(sum) -> P(sum)" in text
    assert "on 2 ranks, mul(f64[4], f64[4])" in text and "off by 3" in text
    assert "not tried to its end: crashed: signal 11" in text
    assert "P(max)" not in text
    assert text.strip().splitlines()[-1] == (
        "3 ops, 57 checks in 1.5 s; 1 unsound row in 1 op; 1 row that holds and is not claimed "
        "(--show-missing); 1 op not tried to its end."
    )


def test_wrong_runs_are_told_with_how_many_were_right(capsys: pytest.CaptureFixture[str]) -> None:
    print_reports([RAN], 1.0)
    text = capsys.readouterr().out
    assert "  wrong: S(0) -> P(avg)\n    gradient of self: off by 3\n    on 2 ranks" in text
    assert "; 12 runs with 20 gradients, 1 wrong." in text
    print_reports([OpReport("aten.mm.default", checks=1, runs=1, gradients=2)], 1.0)
    assert "; 1 run with 2 gradients, none wrong." in capsys.readouterr().out


def test_of_a_rule_in_the_notation_the_part_is_told_that_claims_a_row(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = ("P(sum) -> P(sum)", "P(sum) -> P(sum)")
    finding = Finding("unsound", rows, (2, 2), "abs", "off by 3", origins=("mark +", "mark +"))
    print_reports([OpReport("aten.abs.default", "registered rule", findings=[finding])], 1.0)
    text = capsys.readouterr().out
    assert "  unsound: P(sum) -> P(sum); P(sum) -> P(sum) (from mark +)\n" in text


def test_of_a_rule_of_the_users_own_the_way_to_the_right_one_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = OpReport("aten.neg.default", "own rule", 2, 7, [UNSOUND], calls=1)
    print_reports([own, WRONG], 1.0, files=" --module mine.py")
    advice = [line for line in capsys.readouterr().out.splitlines() if "which rows hold" in line]
    assert advice == [
        "  which rows hold: shardprop discover aten.mul.Tensor --module mine.py --diff"
    ]


def test_an_error_that_is_told_is_not_told_again_among_what_was_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    skipped = {"no rank": 3, "raises for 2": 1, "raises for 3": 1, "raises for 4": 1, "late": 2}
    print_reports([OpReport("aten.mm.default", error="the op: no rank", skipped=skipped)], 1.0)
    text = capsys.readouterr().out
    assert text.count("no rank") == 1
    assert "  left out: raises for 2 (1 time)\n" in text
    assert "  and for 1 more reason (--json has all)\n" in text


@pytest.mark.parametrize(("columns", "width"), [("60", 60), ("", 120)])
def test_a_table_is_as_wide_as_asked(
    columns: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    print_reports([OpReport("mylib." + "o" * 200, "own rule")], 1.0)
    table, _, _ = capsys.readouterr().out.partition("\n\n")
    assert max(map(len, table.splitlines())) == width


def test_of_a_check_of_nothing_no_good_news_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    print_reports([OpReport("my.op.default", "registered rule", calls=1, error="no call")], 1.0)
    assert capsys.readouterr().out.splitlines()[-1] == (
        "1 op, 0 checks in 1.0 s; nothing could be checked; 1 op not tried to its end."
    )


def test_of_an_op_without_a_rule_the_way_to_one_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_reports([OpReport("my.op.default", "none", 0, 9, calls=3)], 1.0, files=" --module op.py")
    text = capsys.readouterr().out
    assert "  it has no rule; to have one found: shardprop discover my.op.default --module" in text


def test_missing_rows_are_printed_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    print_reports([LACKING], 1.0, show_missing=True)
    assert "missing: P(max) -> P(max)" in capsys.readouterr().out


def test_a_long_table_lists_what_there_is_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    print_reports([GOOD] * 100 + [WRONG], 1.0)
    text = capsys.readouterr().out
    assert "and 100 ops of which nothing was found" in text
    assert "aten.mm.default" not in text


def test_json_has_everything() -> None:
    found = json.loads(json.dumps(values([GOOD, WRONG, CRASHED, RAN], Settings(seed=4), 1.234)))
    assert sorted(found) == ["ops", "settings", "summary", "torch"]
    assert found["settings"]["seed"] == 4
    summary = {key: value for key, value in found["summary"].items() if key != "seconds"}
    assert summary == {
        "ops": 4,
        "unsound": 1,
        "raising": 0,
        "missing": 1,
        "wrong": 1,
        "errors": 1,
        "checks": 57,
        "runs": 12,
        "gradients": 20,
        "untried": {},
    }
    assert found["ops"][1]["findings"][0]["rows"] == ["P(sum), P(sum) -> P(sum)"]
    assert found["ops"][1]["findings"][0]["repro"] == "print(1)"
    assert found["ops"][2]["error"] == "crashed: signal 11"


def test_scripts_are_written_for_findings_that_have_one(tmp_path: Path) -> None:
    written = write_scripts([GOOD, WRONG], tmp_path / "new" / "folder")
    (path,) = written.values()
    assert path.name == "aten.mul.Tensor_unsound_1.py"
    assert path.read_text() == "print(1)"


@pytest.mark.parametrize("missing", [False, True])
def test_scripts_of_missing_rows_are_written_where_those_are_shown(
    missing: bool, tmp_path: Path
) -> None:
    row = Finding("missing", ("P(max) -> P(max)",), (3,), "relu(f64[4])", "holds", "print(2)")
    report = OpReport("aten.relu.default", findings=[row])
    written = write_scripts([report], tmp_path, missing=missing)
    assert [path.name for path in written.values()] == ["aten.relu.default_missing_1.py"] * missing


def test_scripts_of_a_module_run_it_first(tmp_path: Path) -> None:
    own = Finding("unsound", ("R -> R",), (2,), "f(x)", "", f"{DEFINE_HERE}\nprint(1)")
    module = tmp_path / "mine" / "rules.py"
    module.parent.mkdir()
    (module.parent / "beside_rules.py").write_text("print('defined')")
    module.write_text("import beside_rules")
    (path,) = write_scripts([OpReport("my.op.default", findings=[own])], tmp_path, module).values()
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd="/")
    assert done.stdout == "defined\n1\n", done.stderr
