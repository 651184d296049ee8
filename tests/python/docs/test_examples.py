"""Every example runs as its docstring says, checks itself, and ends with the line shown here."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from ..checkout import ROOT

EXAMPLES = ROOT / "examples"

# By name: what one of its lines has to match. Each raises SystemExit where its own checks fail.
SHOWN = {
    "autoparallel_style": r"checked against single plans and all combinations",
    "comparing_topologies": r"no plan is cheaper on a machine than the one that was made for it",
    "custom_op": r"  .*`weight` on (dim \d of )?mesh dim `dp`.*",
    "fsdp2_tensor_parallel": r"losses( \d\.\d{4}){3} \(the same with torch alone\)",
    "tensor_parallel_llama": r"\d{3} decisions by the core, 0 fallbacks",
}

# By name: what needs another library, and the test that runs it where that is installed.
ELSEWHERE = {"autoparallel_bridge": "tests/clients/test_autoparallel.py"}


def test_every_example_is_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == SHOWN.keys() | ELSEWHERE.keys()
    assert all((ROOT / test).exists() for test in ELSEWHERE.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SHOWN))
def test_example(name: str) -> None:
    script = EXAMPLES / f"{name}.py"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert any(re.fullmatch(SHOWN[name], line) for line in done.stdout.splitlines()), done.stdout
    assert f"python examples/{name}.py" in script.read_text(), "the docstring says how to run it"
