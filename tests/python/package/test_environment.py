"""SHARDPROP in the environment, and `shardprop run`: programs that were not edited."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import shardprop

PACKAGES = Path(shardprop.__file__).parents[1]

PROGRAM = """
import sys
import torch
{imports}
import torch.distributed as dist
assert "shardprop" not in {forbidden}
dist.init_process_group("fake", rank=0, world_size=4)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
mesh = init_device_mesh("cpu", (4,))
x = DTensor.from_local(torch.ones(2, 3), mesh, [Shard(0)], run_check=False)
print((x @ x.t()).shape, x.sin().placements)
shardprop = sys.modules.get("shardprop")
print("decided", 0 if shardprop is None else shardprop.stats().decisions, *sys.argv[1:])
"""
IMPORTS = (
    "from torch.distributed.fsdp import fully_shard",
    "import torch._dynamo, torch.distributed.tensor.parallel as tp",
)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.format(imports="", forbidden="()"))
    return file


def ran(
    *command: str, first: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A Python command, as if what is tested were installed, and something before it."""
    held = {name: value for name, value in os.environ.items() if not name.startswith("SHARDPROP")}
    places = [first, PACKAGES, held.get("PYTHONPATH")]
    path = os.pathsep.join(str(place) for place in places if place)
    return subprocess.run(
        [sys.executable, *command],
        env={**held, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_torch_finds_it_among_the_installed_packages() -> None:
    found = metadata.entry_points(group="torch.backends")
    assert {each.value for each in found if each.name == "shardprop"} == {
        "shardprop_autoload:autoload"
    }


@pytest.mark.slow
@pytest.mark.parametrize("imports", IMPORTS)
def test_a_program_that_was_not_edited(tmp_path: Path, imports: str) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.format(imports=imports, forbidden="()"))
    done = ran(str(file), SHARDPROP="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "decided 3" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("value", ["0", None])
def test_without_the_variable_nothing_is_imported(tmp_path: Path, value: str | None) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.format(imports="", forbidden="sys.modules"))
    done = ran(str(file)) if value is None else ran(str(file), SHARDPROP=value)
    assert (done.returncode, done.stderr) == (0, "")
    assert "decided 0" in done.stdout


@pytest.mark.slow
def test_a_line_at_the_end(program: Path) -> None:
    done = ran(str(program), SHARDPROP="report")
    assert done.returncode == 0
    assert re.fullmatch(
        r"shardprop: 3 decisions by the core in [\d.]+ s \(torch alone about [\d.]+, by 3 of them\)"
        r", 0 by torch for lack of a rule, 0 fallbacks, 0 refused, 0 corrected\n",
        done.stderr,
    )
    assert ran(str(program), SHARDPROP="report", RANK="1").stderr == ""


@pytest.mark.slow
def test_run(program: Path) -> None:
    done = ran("-m", "shardprop", "run", "--report", str(program), "--steps", "2")
    assert done.returncode == 0 and "decided 3 --steps 2" in done.stdout
    assert done.stderr.startswith("shardprop: 3 decisions by the core")
    program.write_text("import os, subprocess, sys\nprint(os.environ['SHARDPROP'])\nsys.exit(5)\n")
    done = ran("-m", "shardprop", "run", str(program))
    assert (done.returncode, done.stdout, done.stderr) == (5, "1\n", "")


@pytest.mark.slow
def test_a_script_that_cannot_be_run(tmp_path: Path) -> None:
    missing = ran("-m", "shardprop", "run", str(tmp_path / "nothing.py"))
    assert missing.returncode == 2 and missing.stderr.count("\n") == 1
    broken = tmp_path / "broken.py"
    broken.write_text("import no_such_module\n")
    done = ran("-m", "shardprop", "run", str(broken))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'no_such_module'"


@pytest.mark.slow
def test_the_program_goes_on_where_shardprop_cannot(program: Path, tmp_path: Path) -> None:
    done = ran(str(program), SHARDPROP="yes")
    assert done.returncode == 0 and "decided 0" in done.stdout
    assert done.stderr == (
        "shardprop: Expected SHARDPROP=1 or SHARDPROP=report, got 'yes': not enabled\n"
    )
    other = tmp_path / "other"
    (other / "shardprop").mkdir(parents=True)
    (other / "shardprop" / "__init__.py").write_text("import no_such_module\n")
    done = ran(str(program), SHARDPROP="1", first=other)
    assert done.returncode == 0
    assert done.stderr == (
        "shardprop: not enabled, ModuleNotFoundError: No module named 'no_such_module'\n"
    )


@pytest.mark.slow
def test_two_versions_on_the_path(program: Path, tmp_path: Path) -> None:
    """The files of one, and the extension of another."""
    other = tmp_path / "other"
    other.mkdir()
    for folder in ("shardprop", "shardprop_autoload"):
        (other / folder).mkdir()
        for file in (PACKAGES / folder).iterdir():
            (other / folder / file.name).symlink_to(file)
    version = other / "shardprop" / "version.py"
    version.unlink()
    version.write_text('__version__ = "99.0"\n')
    done = ran(str(program), SHARDPROP="1", first=other)
    assert done.returncode == 0 and "decided 0" in done.stdout
    assert "Expected the extension of shardprop 99.0" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        "import torch, shardprop; print(shardprop.is_enabled())",
        "import shardprop; shardprop.enable(); print(shardprop.is_enabled())",
        "from importlib.util import find_spec\n"
        "import torch\n"
        "name = 'torch.distributed.run'\n"
        "print(find_spec(name).loader.get_code(name) is not None)",
    ],
)
def test_whoever_imports_dtensor_first(program: str) -> None:
    """shardprop itself may, and somebody may look at torch's modules without importing them."""
    done = ran("-c", program, SHARDPROP="1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


@pytest.mark.slow
def test_threads_that_import_torch() -> None:
    program = (
        "import threading, importlib, torch\n"
        "names = 'torch.distributed.tensor', 'torch.distributed.fsdp', 'torch._inductor'\n"
        "threads = [threading.Thread(target=importlib.import_module, args=(n,)) for n in names]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "import shardprop; print(shardprop.is_enabled())\n"
    )
    done = ran("-c", program, SHARDPROP="1")
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


@pytest.mark.slow
def test_the_programs_own_timer_stays(program: Path) -> None:
    """And children that were forked print no line."""
    program.write_text(
        "import atexit, os, signal\n"
        "atexit.register(lambda: print(round(signal.getitimer(signal.ITIMER_REAL)[0])))\n"
        f"signal.setitimer(signal.ITIMER_REAL, 3600)\n{program.read_text()}"
        "shardprop.enable()  # which puts itself where the report was\n"
        "x.cos()\n"
        "if os.fork() == 0: sys.exit()\n"
        "os.wait()\n"
    )
    done = ran(str(program), SHARDPROP="report")
    assert (done.returncode, done.stderr.count("shardprop: 4 decisions")) == (0, 1), done.stderr
    assert "by 4 of them" in done.stderr
    assert done.stdout.splitlines()[-1] > "3500"
