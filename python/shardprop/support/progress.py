"""A bar on stderr for long work, where a person can see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress"]


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """Show how far the work of the block is; nothing where stderr is no terminal.

    The block calls what it is given as each part of the work begins, with its name; or, where parts
    are done side by side, before the first and as each is done.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description:<40}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    # No thread that redraws: it would take the interpreter while something is timed.
    bar = Progress(
        *columns,
        console=console,
        transient=True,
        auto_refresh=False,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("", total=total)
        begun = 0

        def begin(part: str) -> None:
            nonlocal begun
            bar.update(task, completed=begun, description=part)
            bar.refresh()
            begun += 1

        yield begin
