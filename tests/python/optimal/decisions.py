"""Random tables of rows, and what the core chooses among their strategies against the oracle."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec

from shardprop import _core
from shardprop.cost.cost_model import CostModel
from shardprop.model.question import Choice, NoStrategyError, Question
from shardprop.propagation.core_call import prepare
from shardprop.propagation.output_prices import choose_cheapest
from shardprop.rules.rule import RowsRule

from ..parity.meshes import MeshKey
from ..specs import meta_of
from .brute_force import Total, all_prices, cheapest
from .core import OneModel
from .layouts import random_layout, random_sizes, spec_of_layout
from .models import random_model
from .moves import Problem
from .search_oracle import Operand, Row, Strategy, best_strategies
from .state import REPLICATED, State, state_of_placements, state_of_spec

__all__ = ["Decision", "Rule", "choice_fault", "chosen", "random_decision"]

aten = torch.ops.aten


@dataclass(frozen=True)
class Rule(RowsRule):
    """Rows as they are, for an op of one output that may write into its first operand."""

    table: list[Row]
    allow_uneven_sharding: bool
    outputs: int = 1

    def rows_of(self, op: object, args: object, kwargs: object, meta: object) -> list[Row]:
        return self.table


@dataclass(frozen=True)
class Decision:
    """A question to a search.

    Attributes:
        weight: What part of its later price an output adds.
        consumer: What becomes of the output; None: the nearest layout without partials.
    """

    model: CostModel
    rule: Rule
    operands: tuple[DTensorSpec, ...]
    output_shape: tuple[int, ...]
    in_place: bool = False
    memory_limit: int | None = None
    weight: float = 0.0
    consumer: DTensorSpec | None = None

    @property
    def question(self) -> Question:
        op = aten.addcmul_.default if self.in_place else aten.addcmul.default
        specs = [*self.operands]
        meta = meta_of(self.output_shape)
        return Question(op, op, tuple(specs), {}, specs, len(specs), meta, specs[0].mesh)


def random_decision(rng: random.Random, mesh_ndim: int, *, weighed: bool = False) -> Decision:
    sizes = random_sizes(rng, mesh_ndim)
    model = random_model(rng, sizes)
    mesh = MeshKey(sizes).build()  # which groups it has, the model says
    shapes = [
        tuple(rng.choices((1, 2, 3, 4, 8, 24, 96), k=rng.randint(1, 3)))
        for _ in range(rng.randint(1, 3))
    ]
    operands = tuple(
        spec_of_layout(mesh, shape, random_layout(rng, mesh_ndim, len(shape), strided=0.05))
        for shape in shapes
    )
    output = tuple(rng.choices((4, 8, 24), k=2))
    ndims = [len(output), *map(len, shapes)]
    table = [_row(rng, ndims) for _ in range(rng.randint(1, 5 if mesh_ndim == 3 else 8))]
    table.insert(rng.randint(0, len(table)), tuple(Replicate() for _ in ndims))
    if weighed:
        wanted = random_layout(rng, mesh_ndim, 2)
        consumer = spec_of_layout(mesh, output, wanted) if rng.random() < 0.5 else None
        rule = Rule(table, rng.random() < 0.2)
        return Decision(
            model, rule, operands, output, weight=rng.choice((0.5, 1.0)), consumer=consumer
        )
    limit = rng.choice((64, 512, 4096)) if rng.random() < 0.1 else None
    rule = Rule(table, rng.random() < 0.2)
    return Decision(model, rule, operands, output, rng.random() < 0.15, limit)


def _row(rng: random.Random, ndims: Sequence[int]) -> Row:
    def cell(ndim: int) -> Placement:
        luck = rng.random()
        if luck < 0.6:
            return Shard(rng.randrange(ndim))
        return Replicate() if luck < 0.85 else Partial(rng.choice(("sum", "sum", "avg", "max")))

    return tuple(map(cell, ndims))


def chosen(decision: Decision) -> Choice | None:
    """What the core chooses; None where it says that there is nothing to choose."""
    planner = OneModel(decision.model).planner(decision.memory_limit)
    question = decision.question
    consumers = [decision.consumer] if decision.weight else None
    try:
        prepared = prepare(question, decision.rule)
        return choose_cheapest(planner, question, prepared, consumers, decision.weight)
    except NoStrategyError:
        return None
    except _core.Unsupported as reason:
        if str(reason) == "no plan reaches any strategy":
            return None
        raise


def choice_fault(decision: Decision) -> str | None:
    """Why the core's choice is not the one of least price; None if it is."""
    ours = chosen(decision)
    operands = [Operand.of_spec(spec) for spec in decision.operands]
    later = _Later(decision) if decision.weight else None
    best = best_strategies(
        decision.rule.table,
        operands,
        decision.model,
        in_place=decision.in_place,
        allow_uneven=decision.rule.allow_uneven_sharding,
        memory_limit=decision.memory_limit,
        later=later,
    )
    if ours is None or best is None:
        return None if ours is None and best is None else f"chosen {ours}, expected {best}"
    costs = (*ours.operand_costs, ours.output_cost or 0.0)
    cost = sum(round(1e6 * cost) for cost in costs)
    if cost != best.cost_ps:
        return f"chosen {ours} of {cost} ps, expected {best}"
    strategy = (*ours.outputs, *ours.operands)
    expected = best.strategies[0]
    unmoved = [s for s in best.strategies if _is_unmoved(decision, s)]
    if unmoved and not decision.weight:
        expected = unmoved[-1]  # as torch's: of these it takes the last
    return None if strategy == expected else f"chosen {strategy}, expected {expected} of {best}"


def _is_unmoved(decision: Decision, strategy: Strategy) -> bool:
    """Do all operands stay? One in another shard order than the default one does not."""
    for spec, placements in zip(decision.operands, strategy[1:], strict=True):
        sizes, shape = tuple(spec.mesh.shape), tuple(spec.shape)
        made = DTensorSpec(spec.mesh, spec.placements, tensor_meta=spec.tensor_meta)
        if spec.placements != placements or spec.shard_order != made.shard_order:
            return False
        assert placements is not None
        if state_of_placements(placements, sizes, shape) != state_of_spec(spec):
            return False
    return True


class _Later:
    """What an output will cost: until its consumer has it, or until nothing is pending."""

    def __init__(self, decision: Decision) -> None:
        self._decision = decision
        self._known: dict[State, Total | None] = {}

    def __call__(self, strategy: Strategy) -> tuple[int, int] | None:
        decision = self._decision
        placements = strategy[0]
        assert placements is not None
        state = state_of_placements(placements, decision.model.sizes, decision.output_shape)
        if state not in self._known:
            self._known[state] = self._price(state)
        total = self._known[state]
        return total and (int(decision.weight * total.cost_ps), total.collectives)

    def _price(self, state: State) -> Total | None:
        decision = self._decision
        if decision.consumer is not None:
            return cheapest(self._problem(state_of_spec(decision.consumer)), state)
        nothing_pending = State((REPLICATED,) * len(state.placed), tuple(() for _ in state.orders))
        return min(all_prices(self._problem(nothing_pending), state).values(), default=None)

    def _problem(self, target: State) -> Problem:
        decision = self._decision
        return Problem(decision.model, decision.output_shape, 4, target, decision.memory_limit)
