"""How text is shown: tables as wide as there is room, labelled lines, counts in words."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["console_for_tables", "counted", "labelled", "table"]

# Wide enough for the tables where stdout is a file, which has no width.
_COLUMNS = 120


def console_for_tables() -> Console:
    """Stdout as wide as the terminal, as COLUMNS says, or as the tables where there is neither."""
    from rich.console import Console

    console = Console(highlight=False)
    is_wide = console.is_terminal or os.environ.get("COLUMNS", "").isdecimal()
    return console if is_wide else Console(width=_COLUMNS, highlight=False)


def counted(number: int, what: str) -> str:
    """``"1 op"``, ``"2,000 ops"``."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def table(left: Sequence[str], right: Sequence[str] = ()) -> Table:
    """An empty table without lines: headings of columns of words, then of columns of figures."""
    from rich.table import Table

    made = Table(*left, box=None)
    for heading in right:
        made.add_column(heading, justify="right")
    return made


def labelled(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    """A line for each label and what it stands for, in two columns."""
    width = max((len(label) for label, _ in rows), default=0) + 2
    for label, text in rows:
        yield f"{label:<{width}}{text}"
