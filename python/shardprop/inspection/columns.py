"""Text in columns, for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

__all__ = ["columns", "wrapped"]


def wrapped(text: str, width: int, indent: str = "  ", first: str | None = None) -> list[str]:
    """A paragraph; `first` begins its first line, `indent` the others."""
    return textwrap.wrap(
        text,
        max(width, 20),
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def columns(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()
) -> list[str]:
    """Rows of cells under a head, each column as wide as its widest cell; those in `right` are
    flush right."""
    table = [head, *rows] if head else [*rows]
    widths = [max(len(row[place]) for row in table) for place in range(len(table[0]))]
    return [_line(row, widths, right) for row in table]


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> str:
    cells = [
        cell.rjust(width) if place in right else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return ("  " + "  ".join(cells)).rstrip()
