"""What a run of the demo has to say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...support.console import table, table_lines
from .settings import Settings

__all__ = ["Report", "stats_rows"]

# A label, and what was found.
Row = tuple[str, str]


@dataclass(frozen=True)
class Report:
    """A run's findings, to be printed in either form.

    Attributes:
        settings: Of the run.
        how: How it was run, for the first line.
        rows: What was found, for people.
        found: The same as JSON values; times in seconds.
        good: Whether the check that was asked for passed.
        verdict: The last line.
    """

    settings: Settings
    how: str
    rows: Sequence[Row]
    found: dict[str, object]
    good: bool = True
    verdict: str = ""

    def text(self) -> str:
        """For people."""
        shown = table_lines(table((), self.rows), indent="")
        ends = [self.verdict] if self.verdict else []
        return "\n".join([f"{self.settings.headline}; {self.how}", *shown, *ends])

    def values(self) -> dict[str, object]:
        """For --json."""
        model = {name: value for name, value in vars(self.settings.model).items() if value}
        return {"mesh": list(self.settings.mesh), "model": model, **self.found}


def stats_rows(counts: Mapping[str, Any], where: str) -> list[Row]:
    """Who decided, by the counters of `shardprop.stats()`: of what the core did not decide a total
    with its reasons, the most frequent first."""
    rows = [("made by the core", f"{counts['decisions']} {where}")]
    for label, reasons in (("delegated", counts["delegated"]), ("fell back", counts["fallbacks"])):
        ranked = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
        listed = ", ".join(f"{reason} {count}" for reason, count in ranked)
        rows.append((label, f"{sum(reasons.values())}: {listed}" if reasons else "0"))
    strided, left = counts["strided_operands"], counts["strided_fallbacks"]
    return [*rows, ("strided operands", f"{strided}, {left} fell back")]
