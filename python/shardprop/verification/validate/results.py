"""What a validation found, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..report import Report

__all__ = ["Finding", "OpReport"]


@dataclass(frozen=True)
class Finding:
    """A row that is claimed and wrong, or right and not claimed; a run that is wrong.

    Attributes:
        kind: ``"unsound"`` (a row that is claimed, and the values are wrong, or a rank raises),
            ``"missing"`` (a row that is right and not claimed) or ``"wrong"`` (the op as DTensor
            carries it out: a result or a gradient is wrong, or some ranks raise and others do not).
        rows: A row for each mesh dim, as ``"S(0), R -> P(sum)"``: operands, then outputs. Of a run,
            the layouts that the operands came in and the outputs were given.
        mesh: Sizes of the mesh dims.
        call: The call, shapes and dtypes for tensors.
        reason: What differed, or the error of a rank.
        repro: A Python script that shows it with torch, and what defines an op of your own.
        raises: A rank raises: a program stops, and computes nothing wrong.
        origins: Of each row the part of a rule in the notation that it follows from, as ``"mark
            +"``; of other rules nothing.
    """

    kind: Literal["unsound", "missing", "wrong"]
    rows: tuple[str, ...]
    mesh: tuple[int, ...]
    call: str
    reason: str
    repro: str = ""
    raises: bool = False
    origins: tuple[str, ...] = ()


@dataclass
class OpReport(Report):
    """What was tried of the rule of an op, and what was found.

    Attributes:
        rule: What claims the rows: ``"torch single-dim rule"``, ``"own rule"``, ``"registered
            rule"``, ``"torch full-mesh strategy"``, ``"decomposition"``, ``"none"``. ``"custom
            handler"``: nothing does, for torch hands the op to a function that asks for no rows.
        rows: Distinct rows that were claimed for some call.
        checks: Executions on simulated ranks.
        findings: Unsound and missing rows, and wrong runs.
        runs: Calls that DTensor carried out on all ranks, in some layout.
        gradients: Gradients of theirs that were compared with those of one device.
        untried: What the op is that there is nothing to try: it draws random numbers, say.
    """

    rule: str = "none"
    rows: int = 0
    checks: int = 0
    findings: list[Finding] = field(default_factory=list)
    runs: int = 0
    gradients: int = 0
    untried: str | None = None

    @property
    def unsound(self) -> list[Finding]:
        """Rows that are claimed and wrong."""
        return [finding for finding in self.findings if finding.kind == "unsound"]

    @property
    def raising(self) -> list[Finding]:
        """Those of the unsound rows on which a rank raises."""
        return [finding for finding in self.unsound if finding.raises]

    @property
    def wrong(self) -> list[Finding]:
        """Runs with a wrong result or gradient, or in which some ranks raise alone."""
        return [finding for finding in self.findings if finding.kind == "wrong"]

    @property
    def missing(self) -> list[Finding]:
        """Rows that hold and are not claimed."""
        return [finding for finding in self.findings if finding.kind == "missing"]
