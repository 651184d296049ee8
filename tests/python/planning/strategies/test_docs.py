"""docs/strategies.md says what happens."""

from __future__ import annotations

import doctest

from ...checkout import ROOT


def test_lines_of_the_page(process_group: None) -> None:
    page = ROOT / "docs" / "strategies.md"
    text = "\n".join(line for line in page.read_text().split("\n") if not line.startswith("```"))
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    assert len(test.examples) > 10
    results = doctest.DocTestRunner().run(test)
    assert results.failed == 0
