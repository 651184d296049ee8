"""What a check found, and all findings together."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ...support.console import counted, table, table_lines

__all__ = ["Finding", "Report", "Status", "note", "ok", "problem"]


class Status(Enum):
    """How much a finding matters."""

    OK = "ok"
    NOTE = "note"  # works; it could be better, or should be known
    PROBLEM = "problem"  # does not work, or not as it should


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        check: What was looked at.
        status: How much it matters.
        text: What is there.
        advice: What to do; empty where nothing is to be done.
    """

    check: str
    status: Status
    text: str
    advice: str = ""


@dataclass(frozen=True)
class Report:
    """All findings, in the order of the checks."""

    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Is there no problem?"""
        return not any(finding.status is Status.PROBLEM for finding in self.findings)

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            "healthy": self.healthy,
            "findings": [{**vars(one), "status": one.status.value} for one in self.findings],
        }

    def __str__(self) -> str:
        rows = []
        for finding in self.findings:
            rows.append((finding.status.value, finding.check, finding.text))
            if finding.advice:
                rows.append(("", "", f"-> {finding.advice}"))
        problems = sum(finding.status is Status.PROBLEM for finding in self.findings)
        notes = sum(finding.status is Status.NOTE for finding in self.findings)
        sums = f"{counted(problems, 'problem')}, {counted(notes, 'note')}"
        return "\n".join([*table_lines(table((), rows), indent=""), sums])


def ok(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check, Status.OK, text)


def note(check: str, text: str, advice: str = "") -> Finding:
    """Works; it could be better, or should be known."""
    return Finding(check, Status.NOTE, text, advice)


def problem(check: str, text: str, advice: str) -> Finding:
    """Does not work, or not as it should."""
    return Finding(check, Status.PROBLEM, text, advice)
