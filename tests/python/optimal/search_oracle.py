"""The cheapest strategies of an op, by pricing every combination of its rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch.distributed.tensor import Partial, Placement
from torch.distributed.tensor._dtensor_spec import DTensorSpec

from shardprop.cost.cost_model import CostModel
from shardprop.model.plan_steps import Layout

from .brute_force import Total, all_prices
from .moves import Problem
from .state import (
    NORM,
    REPLICATED,
    SPECIAL,
    SS,
    P,
    Placed,
    State,
    placed,
    state_of,
    state_of_placements,
    state_of_spec,
)

__all__ = ["Best", "Operand", "best_strategies", "is_shardable"]

# What an op allows on one mesh dim: for each output, then for each operand. None: no tensor.
Row = Sequence[Placement | None]
Placements = tuple[Placement, ...]
# The same for all mesh dims.
Strategy = tuple[Placements | None, ...]


@dataclass(frozen=True)
class Operand:
    """A tensor that an op is called with."""

    placements: Placements
    state: State
    shape: tuple[int, ...]
    itemsize: int

    @staticmethod
    def of_spec(spec: DTensorSpec) -> Operand:
        assert spec.tensor_meta is not None
        itemsize = spec.tensor_meta.dtype.itemsize
        return Operand(tuple(spec.placements), state_of_spec(spec), tuple(spec.shape), itemsize)

    @staticmethod
    def of_layout(
        layout: Layout, sizes: Sequence[int], shape: tuple[int, ...], itemsize: int
    ) -> Operand:
        state = state_of(layout, sizes, len(shape))
        return Operand(layout.placements, state, shape, itemsize)


@dataclass(frozen=True)
class Best:
    """The least (picoseconds, collectives) over all operands, and the strategies that reach it.

    They are in the order in which torch looks at them: the last mesh dim varies fastest.
    """

    cost_ps: int
    collectives: int
    strategies: tuple[Strategy, ...]


def best_strategies(
    rows: Sequence[Row],
    operands: Sequence[Operand],
    model: CostModel,
    *,
    in_place: bool = False,
    allow_uneven: bool = False,
    strided_is_order: bool = True,
    memory_limit: int | None = None,
    later: Callable[[Strategy], tuple[int, int] | None] | None = None,
) -> Best | None:
    """None where no strategy is valid and has a plan for every operand.

    Args:
        in_place: The first operand keeps its placements, and the first output has them.
        allow_uneven: An operand that stays as it is may leave ranks without a piece.
        strided_is_order: Strided shards of a strategy stand for a shard order.
        memory_limit: Bytes that a rank may hold at once during a step.
        later: What picoseconds and collectives a strategy's outputs add; None: it is impossible.
    """
    outputs = len(rows[0]) - len(operands)
    priced = [_Prices(operand, model, strided_is_order, memory_limit) for operand in operands]
    found: dict[tuple[int, int], list[Strategy]] = {}
    for combination in itertools.product(rows, repeat=len(model.sizes)):
        strategy = _transposed(combination)
        inputs = strategy[outputs:]
        if in_place and not _keeps_first(strategy, outputs, operands[0]):
            continue
        if any(_is_mixed(placements) for placements in strategy):
            continue
        if not all(
            is_shardable(operand.shape, placements, model.sizes)
            or (allow_uneven and placements == operand.placements)
            for operand, placements in zip(operands, inputs, strict=True)
        ):
            continue
        totals = [prices.to(placements) for prices, placements in zip(priced, inputs, strict=True)]
        reached = [total for total in totals if total is not None]
        added = (0, 0) if later is None else later(strategy)
        if len(reached) == len(totals) and added is not None:
            cost = sum(total.cost_ps for total in reached) + added[0]
            collectives = sum(total.collectives for total in reached) + added[1]
            found.setdefault((cost, collectives), []).append(strategy)
    if not found:
        return None
    least = min(found)
    return Best(*least, tuple(found[least]))


def _transposed(combination: Sequence[Row]) -> Strategy:
    """Rows by mesh dim as placements by position; the first mesh dim says whether there is one."""
    return tuple(
        None if position[0] is None else tuple(position)
        for position in zip(*combination, strict=True)
    )


def _keeps_first(strategy: Strategy, outputs: int, operand: Operand) -> bool:
    output = strategy[0] if outputs else None
    return strategy[outputs] == operand.placements and output in (None, operand.placements)


def _is_mixed(placements: Placements | None) -> bool:
    """Are there partials of more than one kind that are not sums and averages of one class?"""
    kinds = {(type(p), p.reduce_op) for p in placements or () if isinstance(p, Partial)}
    classes, ops = {kind for kind, _ in kinds}, {op for _, op in kinds}
    return len(kinds) > 1 and (len(classes) > 1 or ops != {"sum", "avg"})


def is_shardable(shape: Sequence[int], placements: Placements | None, sizes: Sequence[int]) -> bool:
    """Has each tensor dim at least one element for each piece, by the product of sizes so far?"""
    pieces = [1] * len(shape)
    for placement, size in zip(placements or (), sizes, strict=True):
        p = placed(placement)
        if p.cuts:
            if p.dim >= len(shape):
                return False
            pieces[p.dim] *= size
            if shape[p.dim] < pieces[p.dim] * p.factor:
                return False
    return True


@dataclass
class _Prices:
    """Of one operand; targets with the same partials and strided shards take one search."""

    operand: Operand
    model: CostModel
    strided_is_order: bool
    memory_limit: int | None
    known: dict[tuple[Placed, ...], dict[State, Total]] = field(default_factory=dict)

    def to(self, placements: Placements | None) -> Total | None:
        assert placements is not None, "an operand is a tensor"
        operand = self.operand
        target = state_of_placements(
            placements, self.model.sizes, operand.shape, self.strided_is_order
        )
        pattern = tuple(
            p if p.kind in (P, NORM, SPECIAL, SS) else REPLICATED for p in target.placed
        )
        if pattern not in self.known:
            problem = Problem(
                self.model, operand.shape, operand.itemsize, target, self.memory_limit
            )
            self.known[pattern] = all_prices(problem, operand.state)
        return self.known[pattern].get(target)
