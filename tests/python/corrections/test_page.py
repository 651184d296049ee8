"""The public table of corrections."""

from __future__ import annotations

from tools.corrections_page import page

from ..checkout import ROOT


def test_the_page_is_what_its_tool_writes() -> None:
    """If not: python tools/corrections_page.py > docs/corrections.md"""
    assert (ROOT / "docs" / "corrections.md").read_text() == page()
