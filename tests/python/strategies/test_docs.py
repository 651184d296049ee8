"""docs/strategies.md says what happens, and the example beside it checks itself."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_lines_of_the_page(process_group: None) -> None:
    page = ROOT / "docs" / "strategies.md"
    text = "\n".join(line for line in page.read_text().split("\n") if not line.startswith("```"))
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    assert len(test.examples) > 10
    results = doctest.DocTestRunner().run(test)
    assert results.failed == 0


def test_example_checks_its_plan() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", ROOT / "examples" / "autoparallel_style.py"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("checked against single plans and all combinations\n")
