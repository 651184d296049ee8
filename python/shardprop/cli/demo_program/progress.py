"""The progress display of the demo: steps, decisions, seconds in propagation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

_REFRESH_SECONDS = 0.1


class Line:
    """Counts one run's propagations and shows how far it is, on stderr: stdout is for the result.

    The line is redrawn between decisions and never by a thread of its own: a thread would take
    the interpreter in the middle of a decision and its time would count as propagation.
    """

    def __init__(self, progress: Progress, name: str, steps: int) -> None:
        self.decisions, self.seconds = 0, 0.0
        self._progress = progress
        self._task = progress.add_task(name, total=steps, decisions=0, seconds=0.0)
        self._drawn = 0.0

    def add(self, seconds: float) -> None:
        """One more propagation."""
        self.decisions += 1
        self.seconds += seconds
        if time.monotonic() - self._drawn >= _REFRESH_SECONDS:
            self._draw()

    def end_step(self) -> None:
        """One more step."""
        self._progress.advance(self._task)
        self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        self._progress.update(self._task, decisions=self.decisions, seconds=self.seconds)
        self._progress.refresh()


@contextmanager
def step_display(steps: int) -> Iterator[Callable[[str], Line]]:
    """What makes a line for each run of so many training steps, while the block runs."""
    columns = (
        TextColumn("{task.description:<12}"),
        BarColumn(bar_width=20),
        TextColumn("step {task.completed}/{task.total}"),
        TextColumn("{task.fields[decisions]} decisions"),
        TextColumn("{task.fields[seconds]:.2f} s in propagation"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False) as progress:
        yield lambda name: Line(progress, name, steps)
