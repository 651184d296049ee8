"""A decision that torch's own code takes: its strategies where it enumerates them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _torch
from ..._torch import OpSchema
from ...propagation.answer import output_placements, strategy_placements
from ...propagation.decision import decide_by_torch, placed_as
from ...propagation.move_costs import is_placed_alike
from ...propagation.op_call import specs_of
from ...propagation.policy import Policy
from ...propagation.route import Route
from .asking import Answer
from .model import Candidate, OperandMove, in_places
from .moves import move_of
from .words import us_text

__all__ = ["answer_by_torch"]


def answer_by_torch(
    schema: OpSchema, found: Route, policy: Policy, names: Sequence[str]
) -> tuple[Answer, tuple[OperandMove, ...]]:
    """The answer of torch's own code, and the operands that it redistributes, which `names` names.

    The candidates are its strategies by cost, those of equal cost in its order, the one that it
    takes first; that one alone where it enumerates none.

    Raises:
        Exception: what torch raises.
    """
    with policy.one_decision():
        sharding = decide_by_torch(schema, found, policy)
        strategies = _torch.full_mesh_strategies(schema)
    wanted, placed = placed_as(schema, sharding, policy)
    taken = Candidate(
        0, None, output_placements(sharding), placed.operands, placed.operand_costs, placed.cost
    )
    candidates = _in_order(taken, strategies)
    moves = tuple(
        move_of(index, name, src, dst, us)
        for index, (name, src, dst, us) in enumerate(
            zip(names, specs_of(schema), wanted, placed.operand_costs, strict=False)
        )
        if sharding.needs_redistribute and not is_placed_alike(src, dst)
    )
    count = len(candidates)
    others = f", among {count} strategies" if count > 1 else ""
    why = f"torch's own code takes the decision{others}; it costs {us_text(taken.us)}."
    return Answer(None, candidates, "torch decides", why, count, count), moves


def _in_order(taken: Candidate, strategies: Sequence[Any] | None) -> tuple[Candidate, ...]:
    found = [taken]
    for strategy in strategies or ():
        outputs, operands, costs = strategy_placements(strategy)
        found.append(Candidate(0, None, outputs, tuple(operands), tuple(costs), sum(costs)))
    rest = [c for c in found[1:] if (c.outputs, c.operands) != (taken.outputs, taken.operands)]
    rest.sort(key=lambda candidate: candidate.us)
    return in_places([taken, *rest])
