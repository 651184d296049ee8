"""How text is shown: tables (all of the package are made here), paragraphs, counts in words."""

from __future__ import annotations

import io
import os
import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["COLUMNS", "console_for_tables", "counted", "table", "table_lines", "wrapped"]

# Of reports that are strings.
COLUMNS = 100
# Wide enough for the tables where stdout is a file, which has no width.
_COLUMNS = 120
# Wide enough for any table.
_UNBOUNDED = 10_000


def console_for_tables() -> Console:
    """Stdout as wide as the terminal, as COLUMNS says, or as the tables where there is neither."""
    from rich.console import Console

    console = Console(highlight=False)
    is_wide = console.is_terminal or os.environ.get("COLUMNS", "").isdecimal()
    return console if is_wide else Console(width=_COLUMNS, highlight=False)


def counted(number: int, what: str) -> str:
    """``"1 op"``, ``"2,000 ops"``."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def table(
    headings: Sequence[str], rows: Iterable[Sequence[str]] = (), right: Collection[int] = ()
) -> Table:
    """A table without lines, to be printed on a console or made text by `table_lines`.

    Args:
        headings: One for each column; without any text in them the table has no head.
        rows: The cells; more can be added to what is returned.
        right: The columns that are flush right.
    """
    from rich.table import Table

    made = Table(box=None, show_header=any(headings))
    for place, heading in enumerate(headings):
        made.add_column(heading, justify="right" if place in right else "left")
    for row in rows:
        made.add_row(*row)
    return made


def table_lines(shown: Table, indent: str = "  ", width: int = _UNBOUNDED) -> list[str]:
    """A table as plain text, for reports that are strings; cells are wrapped beyond `width`."""
    from rich.console import Console

    out = io.StringIO()
    shown.pad_edge = False
    # In a notebook a console would display the table instead of writing it, and one that takes the
    # text for a terminal (as FORCE_COLOR has it) would go by the terminal's width.
    console = Console(
        file=out,
        width=width,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,
        markup=False,
        emoji=False,
    )
    console.print(shown, highlight=False)
    return [f"{indent}{line}".rstrip() for line in out.getvalue().splitlines()]


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
