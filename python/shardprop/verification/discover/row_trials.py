"""One call on simulated ranks: which of the rows that a rule may have hold for it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ..._torch import Partial, Placement, Replicate, Shard
from ..calls.call import Call
from ..settings import Settings
from ..simulator.candidates import of_operands
from ..simulator.execution import Executable
from ..simulator.explore import explore
from ..simulator.partials import Untestable, is_reducible
from ..simulator.simulation import Row, simulations, varied

__all__ = ["REDUCE_OPS", "SimulatedCall", "combinations"]

# The others pass through what only moves data, and hardly anyone waits for them.
REDUCE_OPS = ("sum", "avg", "max", "min")


class SimulatedCall:
    """A call on a 1-D mesh of simulated ranks.

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
        self._trials = simulations(self._executable, varied(self._executable), (ranks,), seed)
        settings = Settings(strided_factors=())
        tried = combinations(self._executable, ranks, reduce_ops)
        found = explore(self._executable, self._trials, settings, combinations=tried)
        self.rows: list[Row] = found.sound
        self.tried = len(found.tried)

    def holds(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> bool | None:
        """Does a row hold? None where the call cannot tell."""
        row = Row(tuple(outputs), tuple(inputs))
        pairs = zip(row.inputs, self._executable.operands, strict=True)
        if any(isinstance(p, Partial) and not _may_wait(x) for p, x in pairs):
            return None
        try:
            return all(trial.mismatch([row]) is None for trial in self._trials)
        except Untestable:
            return None


def combinations(
    executable: Executable, ranks: int, reduce_ops: Sequence[str] = REDUCE_OPS
) -> Iterator[tuple[Placement, ...]]:
    """The placements of all operands that are tried, those of a list being placed alike.

    They are all combinations of shards and pending sums, since a contraction asks for a pending sum
    beside shards, and for each other reduce op all choices of operands that wait for it. That is a
    fraction of what there is, and has the rows that are known of any op.
    """
    groups = executable.groups
    with_shards = [
        [Replicate(), *_shards(executable, group, ranks), *_pending(executable, group, "sum")]
        for group in groups
    ]
    yield from (of_operands(groups, chosen) for chosen in itertools.product(*with_shards))
    for op in reduce_ops:
        if op != "sum":
            waiting = [[Replicate(), *_pending(executable, group, op)] for group in groups]
            yield from (of_operands(groups, chosen) for chosen in itertools.product(*waiting))


def _shards(executable: Executable, group: Sequence[int], ranks: int) -> Iterator[Placement]:
    tensors = [executable.operands[index] for index in group]
    for dim in range(min(tensor.ndim for tensor in tensors)):
        if all(tensor.shape[dim] >= ranks for tensor in tensors):
            yield Shard(dim)


def _pending(executable: Executable, group: Sequence[int], op: str) -> Iterator[Placement]:
    pending = Partial(op)
    tensors = [executable.operands[index] for index in group]
    if all(_may_wait(x) and is_reducible(x.dtype, pending) for x in tensors):
        yield pending


def _may_wait(operand: torch.Tensor) -> bool:
    """May it be Partial? The sum of bools is no sum, so that they would refute what holds of all
    numbers."""
    return operand.dtype is not torch.bool
