"""AutoParallel on shardprop's strategies and solver finds the optimum that it finds alone."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# What its own optimizer and CBC find.
OPTIMA = {1: 36416.75295994, 2: 53125.34025747}


@pytest.mark.slow
@pytest.mark.parametrize("layers", OPTIMA)
def test_the_bridge_finds_and_proves_the_same_optimum(layers: int) -> None:
    pytest.importorskip("autoparallel", reason="not on PyPI: see autoparallel_llama.py")
    command = [sys.executable, "-m", "tests.clients.autoparallel_llama", str(layers), "--bridged"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["objective"] == pytest.approx(OPTIMA[layers], rel=1e-9)
    assert found["proved"]
