"""How text is shown: tables as wide as there is room, and counts with the plural they ask for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console_for_tables", "counted"]

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
