"""Builds the core without Python and runs its own tests, plainly and under sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("sanitize", "search_cases"),
    [pytest.param("OFF", "100000", id="plain"), pytest.param("ON", "5000", id="sanitized")],
)
def test_core_passes_its_own_tests(tmp_path: Path, sanitize: str, search_cases: str) -> None:
    cmake = shutil.which("cmake")
    assert cmake, "cmake comes with pip install '.[test]'"
    configure = [cmake, "-S", str(ROOT), "-B", str(tmp_path), "-DSHARDPROP_WERROR=ON"]
    configure += [f"-DSHARDPROP_SANITIZE={sanitize}"]
    if shutil.which("ninja"):
        configure += ["-G", "Ninja"]
    subprocess.run(configure, check=True, capture_output=True)
    subprocess.run([cmake, "--build", str(tmp_path), "-j2"], check=True, capture_output=True)
    ran = subprocess.run(
        [str(tmp_path / "tests" / "cpp" / "core_tests")],
        env={**os.environ, "SHARDPROP_SEARCH_CASES": search_cases},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " 0 failed" in ran.stdout
