"""The block of docs/model-plans.md that needs no processes runs as it stands."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ...checkout import ROOT

PAGE = ROOT / "docs" / "model-plans.md"

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_page_does_what_it_says(
    process_group: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = _BLOCK.findall(PAGE.read_text())
    names: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    shown = capsys.readouterr().out
    assert shown.startswith("True ")
    assert "no plan costs less" in shown
    # What the page tells how to run exists.
    assert callable(names["plan"].apply)
    assert callable(names["plan"].compile)
