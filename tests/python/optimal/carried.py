"""Plans of the core carried out on simulated ranks, each one once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .pairs import Planned
from .ranks import fault_of
from .walks import Tensor

__all__ = ["Carried"]


@dataclass
class Carried:
    """What came of plans that were carried out.

    Attributes:
        counts: Plans, by what came of them.
        faults: Texts of those that left wrong data.
        refused: Those that torch's simulation of ranks raises an error for, with its text.
    """

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    refused: list[tuple[Planned, str]] = field(default_factory=list)
    _done: set[str] = field(default_factory=set)

    def add(self, planned: Planned) -> None:
        """Carry out a plan, unless there is none, or an equal one was."""
        if not planned.steps:
            self.counts["no plan" if planned.steps is None else "nothing to do"] += 1
        elif self._is_new(planned):
            self._run(planned)
        else:
            self.counts["equal to one carried out"] += 1

    def _is_new(self, planned: Planned) -> bool:
        assert planned.steps is not None
        steps = [(step.kind, step.mesh_dims, step.before, step.after) for step in planned.steps]
        key = str((planned.batch.model.sizes, planned.batch.shape, steps))
        new = key not in self._done
        self._done.add(key)
        return new

    def _run(self, planned: Planned) -> None:
        batch = planned.batch
        tensor = Tensor(batch.shape, batch.model.sizes, batch.groups)
        assert planned.steps is not None
        try:
            fault = fault_of(planned.steps, tensor, seed=len(self._done))
        except Exception as error:
            self.refused.append((planned, f"{type(error).__name__}: {error}"))
            return
        self.counts["right data" if fault is None else "WRONG DATA"] += 1
        if fault is not None:
            self.faults.append(f"{planned}: {fault[:300]}")
