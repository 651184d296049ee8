"""docs/pictures.md: its code runs, and its pictures are there."""

from __future__ import annotations

import re

from ...checkout import ROOT

DOCUMENT = ROOT / "docs" / "pictures.md"


def test_the_code_of_the_document_runs(pyplot, capsys) -> None:
    code = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S)
    assert len(code) == 3
    names: dict[str, object] = {}
    exec("\n".join(code), names)
    assert capsys.readouterr().out.splitlines() == [
        "0 (0, 0, 0) (((0, 512),), ((0, 2048),)) (2,)",
        "1 (0, 0, 1) (((0, 512),), ((0, 2048),)) (2,)",
    ]
    assert len(pyplot.get_fignums()) == 2


def test_the_pictures_of_the_document_are_there() -> None:
    shown = re.findall(r"!\[.*?\]\((.*?)\)", DOCUMENT.read_text())
    assert len(shown) == 4
    assert [name for name in shown if not (DOCUMENT.parent / name).is_file()] == []
