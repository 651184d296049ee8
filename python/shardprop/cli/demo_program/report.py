"""What a run of the demo has to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...support.console import table, table_lines
from .settings import Settings

__all__ = ["Report", "decider_rows"]

Row = tuple[str, str]


@dataclass(frozen=True)
class Report:
    """A run's findings, to be printed in either form."""

    settings: Settings
    how: str
    """How it was run, for the first line."""
    rows: Sequence[Row]
    """Labels with what was found, for people."""
    found: dict[str, object]
    """The same as JSON values; times in seconds."""
    good: bool = True
    """Whether the check that was asked for passed."""
    verdict: str = ""
    """The last line."""

    def lines(self) -> list[str]:
        """For people."""
        ends = [self.verdict] if self.verdict else []
        return [
            f"{self.settings.headline}; {self.how}",
            *table_lines(table((), self.rows), indent=""),
            *ends,
        ]

    def values(self) -> dict[str, object]:
        """For --json."""
        model = {name: value for name, value in vars(self.settings.model).items() if value}
        return {"mesh": list(self.settings.mesh.sizes), "model": model, **self.found}


def decider_rows(delegated: dict[str, int], fallbacks: dict[str, int]) -> list[Row]:
    """What the core did not decide: a total with its reasons, the most frequent first."""
    rows = []
    for label, reasons in (("delegated", delegated), ("fell back", fallbacks)):
        ranked = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
        listed = ", ".join(f"{reason} {count}" for reason, count in ranked)
        rows.append((label, f"{sum(reasons.values())}: {listed}" if reasons else "0"))
    return rows
