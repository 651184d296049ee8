"""Pages of docs/, typed in: their files are written, their commands run, the output compared."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ..checkout import ROOT

# How many commands each page has, so that none is overlooked.
PAGES = {"cli": 1, "decisions": 1, "quickstart": 4, "tutorial": 4}

_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\w+\.py)\n")
_MATCH = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def _commands(block: str) -> list[tuple[str, str]]:
    """Commands of a console block, each with the output that the tutorial shows."""
    command = ""
    output: list[str] = []
    found: list[tuple[str, str]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            if command:
                found.append((command, "\n".join(output)))
            command, output = line[2:], []
        else:
            output.append(line)
    return [*found, (command, "\n".join(output))]


def _run(command: str, folder: Path) -> str:
    """What a command prints; its exit status last, if it is not 0."""
    words = shlex.split(command)
    program = [sys.executable, "-m", "shardprop"] if words[0] == "shardprop" else [sys.executable]
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    done = subprocess.run(
        [*program, *words[1:]],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    status = f"\n(exit status {done.returncode})" if done.returncode else ""
    return done.stdout + (done.stderr if done.returncode not in (0, 1) else "") + status


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(PAGES))
def test_page_does_what_it_says(page: str, tmp_path: Path) -> None:
    checker = doctest.OutputChecker()
    blocks = _BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text())
    commands = 0
    for language, block in blocks:
        if language == "python":
            name = _FILE.match(block)
            assert name, f"a block of Python that names no file:\n{block}"
            (tmp_path / name[1]).write_text(block)
            continue
        for command, shown in _commands(block):
            printed = _run(command, tmp_path)
            assert checker.check_output(shown + "\n", printed + "\n", _MATCH), (
                f"$ {command}\n{printed}\n--- the page shows:\n{shown}"
            )
            commands += 1
    assert commands == PAGES[page]
