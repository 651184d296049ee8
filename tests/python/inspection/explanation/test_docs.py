"""docs/explain.md says what happens."""

from __future__ import annotations

import doctest

from ...checkout import ROOT

PAGE = ROOT / "docs" / "explain.md"


def test_lines_of_the_page(process_group: None) -> None:
    lines = [line for line in PAGE.read_text().split("\n") if not line.startswith("```")]
    test = doctest.DocTestParser().get_doctest("\n".join(lines), {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) > 9
    assert doctest.DocTestRunner().run(test).failed == 0
