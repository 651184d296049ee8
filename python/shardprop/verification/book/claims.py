"""What is claimed of an op: rows of pending sums, of which calls take back what they refute."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from typing import NamedTuple

from ..._torch import Placement
from ...rules.book.entry import Entry
from .trial import Trial

__all__ = ["Claims"]

# Calls that differ, for which a row has to have held.
_CALLS = 2


class _Claim(NamedTuple):
    """A row.

    Attributes:
        operands: The names of the arguments that are tensors.
        inputs: Their placements on one mesh dim.
        outputs: Those of the outputs; None for one that is absent.
        zero: A number among the arguments that has to be 0; None: the row holds for any call.
    """

    operands: tuple[str, ...]
    inputs: tuple[Placement, ...]
    outputs: tuple[Placement | None, ...]
    zero: str | None


class Claims:
    """All rows are claimed at first. One call for which a row does not hold, or of which nobody can
    say, refutes it, for good."""

    def __init__(self) -> None:
        self._refuted: set[_Claim] = set()
        # The calls that say something for a row, each with how often the op was run.
        self._held: dict[_Claim, dict[Hashable, int]] = {}

    def put_to(self, trial: Trial) -> None:
        """Take back what a call refutes."""
        for inputs, outputs in itertools.product(trial.inputs(), trial.outputs()):
            left = [
                claim
                for zero in (None, *trial.zeros)
                if (claim := _Claim(trial.operands, inputs, outputs, zero)) not in self._refuted
            ]
            if not left:
                continue
            if trial.refutes(inputs, outputs):
                self._refuted.update(left)
            elif trial.tells(inputs):
                for claim in left:
                    self._held.setdefault(claim, {})[trial.key] = trial.runs

    def entries(self) -> Iterator[Entry]:
        """What has held; where a row holds for any call, not for a 0 beside."""
        held = {
            claim: runs
            for claim, runs in self._held.items()
            if claim not in self._refuted and len(runs) >= _CALLS
        }
        for claim in sorted(held, key=str):
            if claim.zero is None or claim._replace(zero=None) not in held:
                yield Entry(*claim, calls=len(held[claim]), runs=sum(held[claim].values()))
