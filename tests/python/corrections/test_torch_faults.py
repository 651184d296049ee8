"""The scripts of docs/torch-faults show what their page says, by torch alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools.torch_faults import (
    PAGE,
    anchor_of,
    outcome,
    page,
    recorded,
    script_of,
    scripts,
    version,
)

import shardprop
from shardprop.corrections import by_op
from shardprop.corrections.by_op import CORRECTIONS

PACKAGE = Path(by_op.__file__).parent


def test_each_correction_has_a_script_and_a_file_of_one_name() -> None:
    assert {script_of(each) for each in CORRECTIONS} == {*scripts()}
    assert all((PACKAGE / script.name).exists() for script in scripts())


@pytest.mark.slow
@pytest.mark.parametrize("script", scripts(), ids=lambda script: script.stem)
def test_the_script_shows_what_is_noted(script: Path) -> None:
    """If not, torch has mended the fault, or has it again: python -m tools.torch_faults, and look
    at the correction. A torch of which nothing is noted is expected to be as the one before."""
    assert not shardprop.is_enabled()
    known = recorded()
    assert outcome(script) == known[max(each for each in known if each <= version())][script.stem]


@pytest.mark.slow
def test_a_script_runs_by_itself() -> None:
    script = script_of(CORRECTIONS[0])
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines() if ":" in line] == [
        "one device",
        "two ranks",
    ]


def test_scripts_need_torch_alone() -> None:
    assert not [script for script in scripts() if "shardprop" in script.read_text()]


def test_the_page_is_what_its_tool_writes() -> None:
    """If not: python -m tools.torch_faults"""
    assert PAGE.read_text() == page()
    assert all(f"](#{anchor_of(each)})" in page() for each in CORRECTIONS)
