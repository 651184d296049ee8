"""docs/tracing.md: its program prints what the page shows."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ...checkout import ROOT

PAGE = ROOT / "docs" / "tracing.md"

_PROGRAM = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```\n\n```text\n(.*?)^```", re.M | re.S)
_MATCH = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.slow
def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    ((name, program, shown),) = _PROGRAM.findall(PAGE.read_text())
    (tmp_path / name).write_text(f"# {name}\n{program}")
    if sys.version_info < (3, 11):  # which has no qualified names of functions
        shown = shown.replace("Mlp.forward", "forward")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", name],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    assert doctest.OutputChecker().check_output(shown, done.stdout, _MATCH), done.stdout
