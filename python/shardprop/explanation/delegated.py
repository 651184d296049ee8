"""A decision that torch's own code takes: its strategies where it enumerates them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _torch
from .._torch import DTensorSpec, OpSchema, OutputSharding
from ..policy import Policy
from .model import Candidate, OperandMove, Placements
from .moves import move_of
from .words import us_text

__all__ = ["Delegated", "ask_torch"]


class Delegated:
    """torch's decision of an op.

    Attributes:
        candidates: Its strategies by cost, those of equal cost in its order, the one that it takes
            first; that one alone where it enumerates none.
        moves: The operands that it redistributes.
        why: A sentence.
        count: How many strategies there are.
    """

    def __init__(self, schema: OpSchema, policy: Policy, names: Sequence[str]) -> None:
        with policy.one_decision():
            answer = _torch.torch_propagate(schema)
            strategies = _torch.full_mesh_strategies(schema)
        operands = schema.args_spec
        wanted = _wanted(schema, answer)
        prices = [policy.cost(src, dst) for src, dst in zip(operands, wanted, strict=True)]
        taken = Candidate(
            place=0,
            rows=None,
            outputs=_outputs(answer),
            operands=tuple(tuple(spec.placements) for spec in wanted),
            operand_us=tuple(prices),
            us=sum(prices),
        )
        self.candidates = _in_order(taken, strategies)
        self.count = len(self.candidates)
        self.moves: tuple[OperandMove, ...] = tuple(
            move_of(index, name, src, dst, us)
            for index, (name, src, dst, us) in enumerate(
                zip(names, operands, wanted, prices, strict=False)
            )
            if answer.needs_redistribute and src.placements != dst.placements
        )
        others = f", among {self.count} strategies" if self.count > 1 else ""
        self.why = f"torch's own code takes the decision{others}; it costs {us_text(taken.us)}."


def ask_torch(schema: OpSchema, policy: Policy, names: Sequence[str]) -> Delegated:
    """Let torch decide.

    Raises:
        Exception: what torch raises.
    """
    return Delegated(schema, policy, names)


def _wanted(schema: OpSchema, answer: OutputSharding) -> Sequence[DTensorSpec]:
    changed = answer.redistribute_schema
    if not answer.needs_redistribute or changed is None:
        return schema.args_spec
    return [x for x in _torch.tree_leaves(changed.args_schema) if isinstance(x, DTensorSpec)]


def _outputs(answer: OutputSharding) -> tuple[Placements | None, ...]:
    specs: Any = answer.output_spec
    if isinstance(specs, DTensorSpec):
        specs = [specs]
    return tuple(None if s is None else tuple(s.placements) for s in specs or ())


def _in_order(taken: Candidate, strategies: Sequence[Any] | None) -> tuple[Candidate, ...]:
    found = [taken]
    for strategy in strategies or ():
        outputs = strategy.output_specs
        specs = [outputs] if isinstance(outputs, DTensorSpec) else outputs or ()
        inputs = strategy.input_specs or ()
        costs = tuple(float(sum(each)) for each in strategy.redistribute_cost or ())
        found.append(
            Candidate(
                place=0,
                rows=None,
                outputs=tuple(None if s is None else tuple(s.placements) for s in specs),
                operands=tuple(tuple(spec.placements) for spec in inputs),
                operand_us=costs,
                us=sum(costs),
            )
        )
    rest = [c for c in found[1:] if (c.outputs, c.operands) != (taken.outputs, taken.operands)]
    rest.sort(key=lambda candidate: candidate.us)
    return tuple(
        Candidate(place, None, c.outputs, c.operands, c.operand_us, c.us)
        for place, c in enumerate([taken, *rest])
    )
