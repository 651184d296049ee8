"""Builds the core without Python, under sanitizers, and runs its own tests.

The core as it is released is what all tests in Python run.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from ..checkout import ROOT


@pytest.mark.slow
def test_core_passes_its_own_tests_under_sanitizers() -> None:
    """The folder of the preset stays, so that what has not changed is not compiled again."""
    cmake = shutil.which("cmake")
    assert cmake, "cmake comes with pip install '.[test]'"
    for step in (["--preset", "sanitized"], ["--build", "--preset", "sanitized", "-j2"]):
        done = subprocess.run([cmake, *step], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    ran = subprocess.run(
        [str(ROOT / "build" / "sanitized" / "tests" / "cpp" / "core_tests")],
        env={**os.environ, "SHARDPROP_SEARCH_CASES": "3000"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " 0 failed" in ran.stdout
