"""`shardprop discover`: its text, its JSON and its exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from shardprop import temporary_rules
from shardprop.cli import app

FILE = str(Path(__file__).with_name("gated_rowscale.py"))
WRONG = str(Path(__file__).with_name("wrong_rule.py"))
LINE = 'shardprop.register_rule(torch.ops.aten.cumsum.default, "+... n@dim! -> ... n@dim")'


def _run(*arguments: str) -> tuple[int, str]:
    result = _result(*arguments)
    return result.exit_code, result.output


def _result(*arguments: str) -> Result:
    with temporary_rules():  # the module of a test may register one
        return CliRunner().invoke(app, ["discover", *arguments])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_first_line_is_to_be_pasted() -> None:
    result = _result("cumsum", "--diff")
    first, *rest = result.stdout.splitlines()  # torch may warn on stderr
    assert (result.exit_code, first) == (0, LINE)
    assert all(line.startswith("#") for line in rest)


@pytest.mark.filterwarnings("ignore")
def test_rows_of_the_present_rule_that_fail_are_told() -> None:
    code, text = _run("discovered::running_sum", "--module", WRONG, "--samples", WRONG, "--diff")
    first, *rest = text.splitlines()
    assert code == 0
    assert first.endswith('running_sum.default, "+m w! -> m w")')
    assert all(line.startswith("#") for line in rest)
    assert any("S(1) -> S(1)" in line and "DOES NOT HOLD" in line for line in rest)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_an_op_of_a_file_as_json() -> None:
    code, text = _run("discovered::gated_rowscale", "--module", FILE, "--samples", FILE, "--json")
    (op,) = json.loads(text)["ops"]
    assert code == 0
    assert op["rule"] == "*... n@dim!, ... n@dim, *w! -> ... n@dim"
    assert op["registration"].startswith("shardprop.register_rule(torch.ops.discovered.")
    assert op["ranks"] == [2, 3]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_where_calls_were_made_up_the_text_says_so() -> None:
    code, text = _run("discovered::gated_rowscale", "--module", FILE, "--time-limit", "120")
    assert "all made up from the schema: for the op's own, --samples FILE" in text
    code, text = _run("discovered::gated_rowscale", "--module", FILE, "--samples", FILE)
    assert code == 0
    assert "made from those given" in text and "made up" not in text


def test_an_unknown_op_makes_no_sense() -> None:
    code, text = _run("no_such_op")
    assert code == 2
    assert "Expected the name of an op" in text


@pytest.mark.filterwarnings("ignore")
def test_an_op_that_is_not_done_in_time_has_no_rule() -> None:
    code, text = _run("convolution.default", "--time-limit", "0.3")  # it takes some ten seconds
    assert code == 1
    # Half of the time is for trying calls, where that is as far as a busy machine comes.
    assert re.search(r"no rule found: not done within 0\.(3|15) s", text)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_variants_that_write_to_out_are_not_asked_for() -> None:
    code, text = _run("cumsum", "--json")
    assert code == 0
    assert [op["op"] for op in json.loads(text)["ops"]] == ["aten.cumsum.default"]
