"""The second half of a check: rows that hold and that nobody claims."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..calls.call import Call
from ..settings import Settings
from ..simulator.execution import Executable
from ..simulator.explore import explore
from ..simulator.simulation import Row, Simulation
from ..texts import call_text, row_text
from .missing import MissingRows
from .repro import smallest_script
from .results import Finding
from .shrink import witness_of

__all__ = ["Looked", "Tried", "look_for_missing"]


class Tried(NamedTuple):
    """A call on one mesh dim, and what the rule claims of it."""

    executable: Executable
    trials: Sequence[Simulation]
    claimed: Sequence[Row]


@dataclass
class Looked:
    """What is missing, as plain data, with the counts for the report."""

    findings: list[Finding] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    checks: int = 0


def look_for_missing(
    tried: Sequence[Tried], settings: Settings, deadline: float = math.inf
) -> Looked:
    """Explore the calls, and compare with what is claimed."""
    looked = Looked()
    missing = MissingRows()
    for executable, trials, claimed in tried:
        before = sum(trial.runs for trial in trials)
        explored = explore(executable, trials, settings, deadline=deadline)
        looked.checks += sum(trial.runs for trial in trials) - before
        looked.skipped += explored.skipped
        missing.see(executable.call, trials[0].sizes[0], claimed, explored)
    for row, call, ranks, others in missing.found():
        also = f" (with {' and '.join(others)} too)" if others else ""
        looked.findings.append(
            Finding(
                kind="missing",
                rows=(row_text(row),),
                mesh=(ranks,),
                call=call_text(call),
                reason=f"holds, and is not claimed{also}",
                repro=_script(row, call, ranks, settings, deadline),
            )
        )
    return looked


def _script(row: Row, call: Call, ranks: int, settings: Settings, deadline: float) -> str:
    """A script that shows that the row holds, if scripts are wanted."""
    if not settings.scripts:
        return ""
    return smallest_script(witness_of(call, [row], (ranks,), settings.seed), settings, deadline)
