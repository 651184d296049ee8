"""Builds the core without Python, under sanitizers, and runs its own tests.

The core as it is released is what all tests in Python run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_core_passes_its_own_tests_under_sanitizers(tmp_path: Path) -> None:
    cmake = shutil.which("cmake")
    assert cmake, "cmake comes with pip install '.[test]'"
    configure = [cmake, "-S", str(ROOT), "-B", str(tmp_path), "-DSHARDPROP_WERROR=ON"]
    # Compiling is most of what this takes, and -O1 keeps it short.
    configure += ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O1"]
    configure += ["-DSHARDPROP_SANITIZE=ON"]
    if shutil.which("ninja"):
        configure += ["-G", "Ninja"]
    subprocess.run(configure, check=True, capture_output=True)
    subprocess.run([cmake, "--build", str(tmp_path), "-j2"], check=True, capture_output=True)
    ran = subprocess.run(
        [str(tmp_path / "tests" / "cpp" / "core_tests")],
        env={**os.environ, "SHARDPROP_SEARCH_CASES": "10000"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " 0 failed" in ran.stdout
