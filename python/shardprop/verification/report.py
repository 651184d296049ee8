"""What both commands report of an op, and how a run of many ops is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ..support.progress import progress

__all__ = ["Report", "collected", "listed"]

Item = TypeVar("Item")


@dataclass
class Report:
    """What was tried of one op, as plain data: it crosses process boundaries and becomes JSON.

    Attributes:
        op: The op overload, such as ``"aten.mm.default"``.
        calls: Calls tried.
        skipped: Calls or rows left out, counted by reason.
        error: Why the op could not be tried to its end: a crash, the time limit, no samples.
        seconds: How long it took.
    """

    op: str
    calls: int = field(default=0, kw_only=True)
    skipped: dict[str, int] = field(default_factory=dict, kw_only=True)
    error: str | None = field(default=None, kw_only=True)
    seconds: float = field(default=0.0, kw_only=True)

    @property
    def reasons(self) -> str:
        """Why calls or rows were left out, each with how often."""
        return ", ".join(f"{reason} ({count})" for reason, count in self.skipped.items())


Some = TypeVar("Some", bound=Report)


def collected(reports: Iterable[Some], count: int) -> list[Some]:
    """The reports by name, with a bar on stderr while they are made."""
    found = []
    with progress(count) as begin:
        begin("recording calls")
        for report in reports:
            found.append(report)
            begin(report.op)
    return sorted(found, key=lambda report: report.op)


def listed(
    items: Sequence[Item], most: int, text: Callable[[Item], str], more: str
) -> Iterator[str]:
    """The text of the first items, and how many more there are: `more` has a place for that."""
    yield from map(text, items[:most])
    if len(items) > most:
        yield more.format(len(items) - most)
