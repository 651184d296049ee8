"""One call on simulated ranks: which of the rows that a rule may have hold for it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from .._torch import Partial, Placement, Replicate, Shard
from ..validate.calls import Call
from ..validate.execution import Executable
from ..validate.explore import explore
from ..validate.partials import Untestable, is_reducible
from ..validate.results import Settings
from ..validate.simulation import Row, is_replicated, simulations, varied

__all__ = ["REDUCE_OPS", "SimulatedCall"]

# The others pass through what only moves data, and hardly anyone waits for them.
REDUCE_OPS = ("sum", "avg", "max", "min")


class SimulatedCall:
    """A call on a 1-D mesh of simulated ranks.

    Tried are all combinations of shards and pending sums, since a contraction asks for a pending sum
    beside shards, and for each reduce op all choices of operands that wait for it. That is a
    fraction of all combinations, and has the rows that are known of any op.

    Args:
        call: The call.
        ranks: How many.
        reduce_ops: The reduce ops that operands may wait for.
        seed: Of the parts that a Partial consists of.

    Raises:
        Untestable: the call says nothing about a rule.
    """

    def __init__(
        self, call: Call, ranks: int, reduce_ops: Sequence[str] = REDUCE_OPS, seed: int = 0
    ) -> None:
        self._executable = Executable(call)
        self._reduce_ops = reduce_ops
        self._ranks = ranks
        self._trials = simulations(self._executable, varied(self._executable), (ranks,), seed)
        settings = Settings(strided_factors=())
        found = explore(self._executable, self._trials, settings, self._combinations())
        self.rows: list[Row] = found.sound
        self.tried = len(found.tried)

    def holds(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> bool | None:
        """Does a row hold? None where the call cannot tell."""
        row = Row(tuple(outputs), tuple(inputs))
        if is_replicated(row.inputs):
            return None
        try:
            return all(trial.mismatch([row]) is None for trial in self._trials)
        except Untestable:
            return None

    def _combinations(self) -> Iterator[tuple[Placement, ...]]:
        kinds = [[Replicate(), *self._shards(group), *self._partial(group, "sum")] for group in self._groups()]
        yield from self._spread(itertools.product(*kinds))
        for op in self._reduce_ops:
            if op != "sum":
                pending = [[Replicate(), *self._partial(group, op)] for group in self._groups()]
                yield from self._spread(itertools.product(*pending))

    def _groups(self) -> Sequence[Sequence[int]]:
        return self._executable.groups

    def _spread(
        self, combinations: Iterator[tuple[Placement, ...]]
    ) -> Iterator[tuple[Placement, ...]]:
        """From one placement per group of operands to one per operand."""
        for chosen in combinations:
            of = {i: p for group, p in zip(self._groups(), chosen, strict=True) for i in group}
            yield tuple(of[index] for index in range(len(of)))

    def _shards(self, group: Sequence[int]) -> Iterator[Placement]:
        tensors = [self._executable.operands[index] for index in group]
        for dim in range(min(tensor.ndim for tensor in tensors)):
            if all(tensor.shape[dim] >= self._ranks for tensor in tensors):
                yield Shard(dim)

    def _partial(self, group: Sequence[int], op: str) -> Iterator[Placement]:
        pending = Partial(op)
        if all(is_reducible(self._executable.operands[i].dtype, pending) for i in group) and all(
            self._shows(index, pending) for index in group
        ):
            yield pending

    def _shows(self, operand: int, pending: Placement) -> bool:
        """Do the ranks hold different parts, so that something is seen of it?"""
        try:
            return not self._trials[0].has_equal_parts(operand, (pending,))
        except Untestable:
            return False
