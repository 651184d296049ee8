"""The public table of corrections."""

from __future__ import annotations

from tools.corrections_page import page

from ..checkout import ROOT


def test_the_page_is_what_its_tool_writes() -> None:
    """If not: python -m tools.corrections_page > docs/corrections.md"""
    assert (ROOT / "docs" / "corrections.md").read_text() == page()
