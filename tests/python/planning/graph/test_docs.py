"""The blocks of docs/graph.md, run one after the other, print what the page shows."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ...checkout import ROOT

PAGE = ROOT / "docs" / "graph.md"

_BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n^```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


def test_the_page_does_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    blocks = _BLOCK.findall(PAGE.read_text())
    for code, shown in blocks:
        exec(compile(code, str(PAGE), "exec"), names)
        assert capsys.readouterr().out == shown
    assert len(blocks) == 3 and all(shown for _, shown in blocks)
