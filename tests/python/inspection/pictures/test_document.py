"""docs/pictures.md: its code runs, and its pictures are there."""

from __future__ import annotations

import re

from ...checkout import ROOT

DOCUMENT = ROOT / "docs" / "pictures.md"


def test_the_code_of_the_document_draws_its_pictures(
    process_group, capsys, tmp_path, monkeypatch
) -> None:
    code = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S)
    assert len(code) == 4
    monkeypatch.chdir(tmp_path)
    exec("\n".join(code), {})
    assert capsys.readouterr().out.splitlines() == [
        "0 (0, 0, 0) (((0, 512),), ((0, 2048),)) (2,)",
        "1 (0, 0, 1) (((0, 512),), ((0, 2048),)) (2,)",
    ]
    drawn = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.glob("*.svg")}
    assert sorted(drawn) == ["landscape.svg", "layout.svg", "plan.svg"]
    for name, svg in drawn.items():
        shown = (DOCUMENT.parent / "img" / name).read_text(encoding="utf-8")
        assert shown == svg, f"{name}: draw it with tools/doc_pictures.py"


def test_the_pictures_of_the_document_are_there() -> None:
    shown = re.findall(r"!\[.*?\]\((.*?)\)", DOCUMENT.read_text())
    assert len(shown) == 4
    assert [name for name in shown if not (DOCUMENT.parent / name).is_file()] == []
