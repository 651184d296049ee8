"""Which rows hold for a call: the op itself, run on simulated ranks, says so."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from ..._torch import Placement, Replicate, is_shard
from ...model.placements import Placements
from ..settings import Settings
from .candidates import REPLICATE, Combinations, all_output_placements, output_placements
from .compare import is_rounded
from .execution import Executable, Outcome
from .partials import Untestable
from .simulation import Row, Simulation, is_replicated, telling

__all__ = ["Exploration", "explore"]


@dataclass
class Exploration:
    """What was tried of a call on one mesh dim, and what holds.

    Attributes:
        tried: Placements of all operands that the op was run on, of ``out=`` arguments Replicate.
        sound: Rows that hold and say something: not the one where all is replicated, nor those of
            dims too small to be cut, nor a Partial where Replicate holds.
        skipped: Combinations left out, counted by reason.
    """

    tried: set[tuple[Placement, ...]] = field(default_factory=set)
    sound: list[Row] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


def explore(
    executable: Executable,
    trials: Sequence[Simulation],
    settings: Settings,
    combinations: Iterable[tuple[Placement, ...]] | None = None,
    deadline: float = math.inf,
) -> Exploration:
    """Try `combinations` of placements of the operands: all (or as many as the settings say) if
    there are none given. Ends at `deadline`, a time as of ``time.monotonic``."""
    found = Exploration()
    first = trials[0]
    if any(not operand.numel() for operand in executable.operands):
        found.skipped["operand without elements"] += 1
        return found
    everything = Combinations(executable, first, settings.strided_factors, settings.combinations)
    explorer = _Explorer(executable, trials, settings)
    for inputs in everything if combinations is None else combinations:
        if is_replicated(inputs):
            continue
        if time.monotonic() > deadline:
            found.skipped["combinations after the time limit"] += 1
            break
        try:
            rows = list(explorer.rows(inputs))
        except Untestable as error:
            found.skipped[str(error)] += 1
            continue
        found.tried.add(inputs)
        found.sound += rows
    if combinations is None and everything.left_out:
        found.skipped["combinations over the limit"] += everything.left_out
    return found


class _Explorer:
    def __init__(
        self, executable: Executable, trials: Sequence[Simulation], settings: Settings
    ) -> None:
        self._trials = trials
        self._first = trials[0]
        self._executable = executable
        self._ranks = self._first.sizes[0]
        self._factors = settings.strided_factors
        self._view_factors = _view_factors(executable, settings.strided_factors)
        self._vague = [
            all(_is_vague(trial.expected.outputs[i]) for trial in telling(trials, []))
            for i in range(len(self._first.expected.outputs))
        ]

    def rows(self, inputs: tuple[Placement, ...]) -> Iterator[Row]:
        """The rows with these placements of the operands that hold in all trials."""
        layouts = tuple((placement,) for placement in inputs)
        if self._executable.rewrites_shape:
            options = [self._rewritten_options(layouts)]
        else:
            made = self._first.local_outputs(layouts)
            if isinstance(made, str) or self._first.written_mismatch(made, layouts) is not None:
                return
            options = []
            for index in range(len(self._vague)):
                options.append(list(self._options(made, index, inputs)))
                if not options[-1]:
                    return
        for outputs in itertools.product(*options):
            if self._says_nothing(outputs):
                raise Untestable("results that would be the same for anything")
            row = Row(outputs, self._with_outs(inputs, outputs))
            trials = telling(self._trials, [row])
            if all(trial.mismatch([row]) is None for trial in trials[1:]):
                yield row

    def _with_outs(
        self, inputs: tuple[Placement, ...], outputs: Sequence[Placement | None]
    ) -> tuple[Placement, ...]:
        """The placements with those of ``out=`` arguments, which are outputs."""
        placed = list(inputs)
        for index, placement in enumerate(outputs):
            alias = self._first.alias(index)
            if alias is not None and placement is not None:
                placed[alias] = placement
        return tuple(placed)

    def _options(
        self, made: Sequence[Outcome], index: int, inputs: tuple[Placement, ...]
    ) -> Iterator[Placement | None]:
        """Placements of one output that hold in the first trial."""
        whole = self._first.expected.outputs[index]
        alias = self._first.alias(index)
        if whole is None:
            yield None
            return
        if alias is not None and alias not in self._executable.outs:
            if self._first.output_mismatch(made, index, (inputs[alias],)) is None:
                yield inputs[alias]
            return
        local = [x for outcome in made if (x := outcome.outputs[index]) is not None]
        if len(local) != len(made):
            return
        for placement in output_placements(whole, local, self._view_factors):
            if self._first.output_mismatch(made, index, (placement,)) is None:
                yield placement
                if placement is REPLICATE or is_shard(placement):
                    return

    def _rewritten_options(self, layouts: tuple[Placements, ...]) -> list[Placement | None]:
        """The same for an op whose arguments are rewritten for each placement of its output."""
        whole = self._first.expected.outputs[0]
        if whole is None:
            return []
        held: list[Placement | None] = []
        for placement in all_output_placements(whole, self._view_factors, self._ranks):
            made = self._first.local_outputs(layouts, (placement,))
            if isinstance(made, str):
                continue
            if self._first.output_mismatch(made, 0, (placement,)) is None:
                if placement is REPLICATE:
                    return [placement]
                held.append(placement)
        return held

    def _says_nothing(self, outputs: Sequence[Placement | None]) -> bool:
        """Is there an output, the same on all ranks, that other operands may well give too?"""
        return any(
            vague and placement is not None and type(placement) is Replicate
            for vague, placement in zip(self._vague, outputs, strict=True)
        )


def _is_vague(whole: torch.Tensor | None) -> bool:
    """All elements equal, or a single one that is no float: other operands may well give it too."""
    if whole is None or not whole.numel():
        return False
    if whole.numel() == 1:
        return not is_rounded(whole.dtype)
    flat = whole.reshape(-1)
    return bool((flat == flat[0]).all() | flat.isnan().all())


def _view_factors(executable: Executable, factors: Sequence[int]) -> list[int]:
    """Split factors that an output may have: those of operands, and what merges the dims before a
    sharded one into it, as a view does."""
    shapes = {tuple(operand.shape) for operand in executable.operands}
    merged = {
        math.prod(shape[start:stop])
        for shape in shapes
        for start, stop in itertools.combinations(range(len(shape)), 2)
    }
    return sorted({factor for factor in (*factors, *merged) if 1 < factor <= 64})
