"""Tables as text: columns, alignment, and what cells may hold."""

from __future__ import annotations

import pytest

from shardprop.support.console import table, table_lines, wrapped


def test_columns_are_as_wide_as_they_need_and_figures_flush_right() -> None:
    shown = table(("op", "us"), [("mm", "1.5"), ("softmax", "12.0")], right=(1,))
    assert table_lines(shown) == ["  op         us", "  mm        1.5", "  softmax  12.0"]


def test_without_headings_there_is_no_head() -> None:
    assert table_lines(table((), [("a", "b"), ("", "c")]), indent="") == ["a  b", "   c"]
    assert table_lines(table(("", ""), [("3", "b"), ("10", "c")], right=(0,)), indent="") == [
        " 3  b",
        "10  c",
    ]


def test_cells_are_shown_as_they_are() -> None:
    cells = ("[bold]f32[4, 8][/bold]", ":smile:", "x" * 300)
    assert table_lines(table((), [cells]), indent="") == ["  ".join(cells)]


def test_a_notebook_gets_the_text_too(monkeypatch: pytest.MonkeyPatch) -> None:
    # There rich would display what is printed, and write nothing.
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert table_lines(table((), [("a", "b")])) == ["  a  b"]


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "TTY_COMPATIBLE"])
def test_a_terminal_that_is_claimed_wraps_nothing(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    monkeypatch.setenv("TERM", "dumb")
    assert table_lines(table((), [("a" * 200, "b")]), indent="") == ["a" * 200 + "  b"]


def test_beyond_a_width_cells_are_wrapped() -> None:
    lines = table_lines(table((), [("a", "one two three")]), indent="", width=10)
    assert lines == ["a  one two", "   three"]


def test_a_paragraph_goes_on_below_its_first_line() -> None:
    text = "operands keep their placements"
    assert wrapped(text, 20) == ["  operands keep", "  their placements"]
    assert wrapped(text, 24, "    ", "- ") == [
        "- operands keep their",
        "    placements",
    ]
