"""docs/optimal.md, typed in: its code runs, and the plan that it shows is what comes out."""

from __future__ import annotations

import re

import pytest

import shardprop

from ..checkout import ROOT

PAGE = ROOT / "docs" / "optimal.md"


def test_the_page_shows_what_comes_out(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text()
    blocks = re.findall(r"^```(python)?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    code = [block for language, block in blocks if language]
    shown = [block for language, block in blocks if not language]
    assert len(code) == 2 and len(shown) == 1
    try:
        exec("\n".join(code), {})
    finally:
        shardprop.disable()
    assert capsys.readouterr().out == shown[0]
