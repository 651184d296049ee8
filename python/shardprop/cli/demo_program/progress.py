"""The progress display of the demo: steps, decisions, seconds in propagation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from .train import Observer, StepTime

_REFRESH_SECONDS = 0.1


class StepDisplay:
    """One line per run, on stderr so that stdout holds nothing but the result.

    The line is redrawn between decisions and never by a thread of its own: a thread would take
    the interpreter in the middle of a decision and its time would count as propagation.
    """

    def __init__(self, progress: Progress, steps: int) -> None:
        self._progress = progress
        self._steps = steps

    def run(self, name: str, observe: Observer) -> tuple[Observer, Callable[[StepTime], None]]:
        """Open a line for a run; returns what to call for each decision and for each step."""
        task = self._progress.add_task(name, total=self._steps, decisions=0, seconds=0.0)
        decisions, seconds, drawn = 0, 0.0, 0.0

        def on_decision(schema: object, result: object, elapsed: float) -> None:
            nonlocal decisions, seconds, drawn
            observe(schema, result, elapsed)
            decisions += 1
            seconds += elapsed
            now = time.monotonic()
            if now - drawn >= _REFRESH_SECONDS:
                drawn = now
                self._draw(task, decisions, seconds)

        def on_step(_: StepTime) -> None:
            self._progress.advance(task)
            self._draw(task, decisions, seconds)

        return on_decision, on_step

    def _draw(self, task: TaskID, decisions: int, seconds: float) -> None:
        self._progress.update(task, decisions=decisions, seconds=seconds)
        self._progress.refresh()


@contextmanager
def step_display(steps: int) -> Iterator[StepDisplay]:
    """Show runs of `steps` training steps each while the block runs."""
    columns = (
        TextColumn("{task.description:<12}"),
        BarColumn(bar_width=20),
        TextColumn("step {task.completed}/{task.total}"),
        TextColumn("{task.fields[decisions]} decisions"),
        TextColumn("{task.fields[seconds]:.2f} s in propagation"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False) as progress:
        yield StepDisplay(progress, steps)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show on stderr that other processes are at work, if anybody can see it."""
    with Console(stderr=True).status(what):
        yield
