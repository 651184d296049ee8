"""What holds for every command: help that teaches, --json, exit codes, errors of one line."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import shardprop

from .running import refused, run

COMMANDS = (
    "demo",
    "run",
    "explain",
    "trace",
    "audit",
    "bench",
    "validate",
    "discover",
    "coverage",
    "calibrate",
    "doctor",
)

# What the commands do, each imported when it is run.
HEAVY = (
    "shardprop.cli.audit_findings",
    "shardprop.cli.benchmark",
    "shardprop.cli.decisions",
    "shardprop.cli.demo_program",
    "shardprop.cli.doctor_checks",
    "shardprop.inspection.explanation",
    "shardprop.inspection.tracing",
    "shardprop.verification.discover.command",
)

# These have no meaning of their own.
OF_SCRIPTS = {("trace", 0), ("run", 0), ("run", 1)}

# A request that makes no sense, and words of what is said of it.
NONSENSE = {
    "demo": (("--mesh", "2x"), "--mesh: Expected sizes such as 2x4, got '2x'."),
    "explain": (("mm", "f32[4]", "f32[4]"), "--mesh: Expected sizes such as 2x4, got none."),
    "trace": (("nothing.py",), "Expected a Python script, got 'nothing.py', where there is none."),
    "audit": (("nothing.py",), "Expected a Python script, got 'nothing.py', where there is none."),
    "bench": (("--op", "nosuch"), "--op: Expected one of mm, add, bmm, layer_norm, cat, embedding"),
    "validate": ((), "Expected names of ops, --all, --module FILE or --plans"),
    "discover": (("nosuchop",), "Expected the name of an op"),
    "coverage": (("--op", "nosuchop"), "Expected a part of an op's name, got 'nosuchop'"),
    "calibrate": (("--mesh", "2by2"), "--mesh: Expected sizes such as 2x4, got '2by2'."),
}


def test_the_commands_are_these() -> None:
    lines = run("--help").stdout.splitlines()
    listed = [line.strip("│ ").split(" ")[0] for line in lines if line.startswith("│ ")]
    assert [name for name in listed if name and not name.startswith("-")] == [*COMMANDS]


def test_no_command_shows_the_help_which_documents_the_exit_codes() -> None:
    output = run("--help").stdout
    assert all(f"{code}:" in output for code in (0, 1, 2, 130))
    assert run().output.strip() == output.strip()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_it_is_for_with_examples_and_exit_codes(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    purpose, _, rest = result.stdout.partition("Examples:")
    assert len(purpose.split()) > 12
    examples, _, codes = rest.partition("Exit codes:")
    assert f"shardprop {command}" in examples
    assert all(f"{code}:" in codes for code in (0, 1, 2) if (command, code) not in OF_SCRIPTS)
    assert ("--json" in codes) == (command != "run"), "among the options"


@pytest.mark.slow
@pytest.mark.parametrize("command", NONSENSE)
@pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["text", "json"])
def test_nonsense_is_refused_in_one_line(
    command: str, as_json: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    arguments, words = NONSENSE[command]
    told = refused(command, *as_json, *arguments)
    assert told.startswith("Error: ")
    assert words in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_is_refused(command: str) -> None:
    operands = {"explain": ("mm", "--mesh", "2"), "trace": (), "discover": ("mm",)}
    told = refused(command, "--no-such-option", *operands.get(command, ()))
    assert "--no-such-option" in told


def test_an_unknown_command_is_refused() -> None:
    assert "No such command 'nosuch'" in refused("nosuch")


def test_version() -> None:
    result = run("--version")
    assert result.exit_code == 0
    python = ".".join(map(str, sys.version_info[:3]))
    assert result.stdout == (
        f"shardprop {shardprop.__version__} (torch {torch.__version__}, Python {python})\n"
    )


def test_help_imports_no_command(tmp_path: Path) -> None:
    assert all(find_spec(name) is not None for name in HEAVY)
    program = (
        "import sys; from shardprop.cli import app; app(['--help'], standalone_mode=False)\n"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_a_mistake_has_no_traceback_in_a_process_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "shardprop", "bench", "--mesh", "0"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: --mesh: Expected sizes such as 2x4, got '0'.\n"


def test_what_a_file_prints_is_not_in_the_json(tmp_path: Path) -> None:
    file = tmp_path / "prints_when_it_is_imported.py"
    file.write_text("print('not JSON')\n")
    told = refused("validate", "--module", str(file), "--json")
    assert told.startswith("not JSON\nError: ")
