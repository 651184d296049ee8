"""`shardprop trace`: a script as __main__, its exit code, where its report and its prints go."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from shardprop.cli.program import run_script

from .running import refused

SCRIPT = """
import sys
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import distribute_tensor, Shard, Replicate

dist.init_process_group("gloo")  # no such ranks: passed over with --fake-ranks
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
x = distribute_tensor(torch.ones(8, 8), mesh, [Shard(0), Shard(1)], src_data_rank=None)
w = distribute_tensor(torch.ones(8, 8), mesh, [Replicate(), Shard(1)], src_data_rank=None)
assert __name__ == "__main__"
y = x @ w
print("printed by the script", sys.argv[1:])
dist.destroy_process_group()
"""


def trace(
    folder: Path, script: str, *options: str, arguments: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """In a process of its own: a process group and __main__ are the process's."""
    (folder / "script.py").write_text(script)
    command = [sys.executable, "-m", "shardprop", "trace", *options, "script.py", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.slow
def test_the_report_follows_what_the_script_prints(tmp_path: Path) -> None:
    given = ("script", "--lr", "3", "--json")
    done = trace(tmp_path, SCRIPT, "--fake-ranks", "4", arguments=given)
    assert done.returncode == 0, done.stderr
    printed, report = done.stdout.split("\n", 1)
    assert printed == f"printed by the script {[*given]}"
    assert "operand self" in report
    assert "script.py:12" in report
    assert "Note: --json behind SCRIPT went to it; ours come before." in done.stderr


@pytest.mark.slow
def test_json_is_alone_on_stdout(tmp_path: Path) -> None:
    script = SCRIPT + "import os; os.system('echo by another process')\n"
    done = trace(tmp_path, script, "--fake-ranks", "4", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == "shardprop/trace/1"
    assert "printed by the script" in done.stderr
    assert "by another process" in done.stderr


@pytest.mark.slow
def test_files_are_written_beside_the_report(tmp_path: Path) -> None:
    pytest.importorskip("shardprop.inspection.report")
    options = ("--fake-ranks", "4", "--html", "a.html", "--json-file", "a.json")
    done = trace(tmp_path, SCRIPT, *options)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "a.json").read_text())["schema"] == "shardprop/trace/1"
    assert "<html" in (tmp_path / "a.html").read_text()
    assert "Written to a.html" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("last", "code", "told"),
    [
        ("sys.exit(3)", 3, ""),
        ("sys.exit('that is all')", 1, "that is all"),
        ("raise KeyError('of the script')", 1, "KeyError: 'of the script'"),
    ],
)
def test_the_report_comes_however_the_script_ends(
    tmp_path: Path, last: str, code: int, told: str
) -> None:
    done = trace(tmp_path, SCRIPT + last + "\n", "--fake-ranks", "4")
    assert done.returncode == code, done.stderr
    assert "operand self" in done.stdout
    assert told in done.stderr
    assert "runpy" not in done.stderr, "the frames are the script's"


LEAVES_BEHIND = """
import os
torch.distributed.distributed_c10d.destroy_process_group()
os.mkdir("elsewhere")
os.chdir("elsewhere")
sys.stdout = open(os.devnull, "w")
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_the_report_comes_whatever_the_script_leaves_behind(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    wanted = ("--fake-ranks", "4", "--json-file", "a.json", *options)
    done = trace(tmp_path, SCRIPT + LEAVES_BEHIND, *wanted)
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "a.json").read_text())
    assert written["schema"] == "shardprop/trace/1"
    if options:
        assert json.loads(done.stdout) == written
    else:
        assert "operand self" in done.stdout


@pytest.mark.slow
def test_of_several_ranks_the_first_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    done = trace(tmp_path, SCRIPT, "--fake-ranks", "4", "--json-file", "a.json")
    assert done.returncode == 0, done.stderr
    assert "operand self" not in done.stdout
    assert not (tmp_path / "a.json").exists()


@pytest.mark.slow
def test_policy_optimal_is_enabled_for_the_script(tmp_path: Path) -> None:
    script = SCRIPT + "import shardprop; assert shardprop.is_enabled()\n"
    options = ("--fake-ranks", "4", "--policy", "optimal", "--topology", "h100-nvlink")
    done = trace(tmp_path, script, *options)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing.py",), "Expected a Python script, got 'nothing.py', where there is none."),
        (("--html", "/no/such/a.html", __file__), "--html: Expected a folder"),
        (("--json-file", "/no/such/a.json", __file__), "--json-file: Expected a folder"),
        (("--fake-ranks", "0", __file__), "--fake-ranks: Expected at least 1, got 0."),
        (("--fake-ranks", "1", "--policy", "optimal", __file__), "Expected --topology"),
        ((), "Missing argument"),
    ],
)
def test_a_request_that_makes_no_sense_ends_with_2(arguments: tuple[str, ...], words: str) -> None:
    assert words in refused("trace", *arguments)


def test_a_script_runs_as_python_runs_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "beside_it.py").write_text("value = 5\n")
    script = tmp_path / "script.py"
    script.write_text("import sys, beside_it\nprint(__name__, beside_it.value, sys.argv[1:])\n")
    argv, path = [*sys.argv], [*sys.path]
    assert run_script(script, ["a", "-b"]) == 0
    assert capfd.readouterr().out == "__main__ 5 ['a', '-b']\n"
    assert (sys.argv, sys.path) == (argv, path)


def test_a_script_that_cannot_be_compiled_ends_with_1(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text("def f(:\n")
    assert run_script(script, []) == 1
    assert "SyntaxError" in capfd.readouterr().err


@pytest.mark.slow
def test_the_report_goes_where_it_was_to_whatever_the_script_does(tmp_path: Path) -> None:
    script = "import io, os, sys\nos.mkdir('x')\nos.chdir('x')\nsys.stdout = io.StringIO()\n"
    done = trace(tmp_path, script, "--json-file", "found.json")
    assert done.returncode == 0, done.stderr
    assert "shardprop trace" in done.stdout
    assert (tmp_path / "found.json").is_file()
