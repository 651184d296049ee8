"""The decision of an op whose outputs follow its operands: what it does with each placement."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..._torch import DTensorSpec, Partial, Placement, Replicate, Shard, StridedShard
from ...rules.follow_rule import candidate_costs
from ..words import dim_names, placement_text
from .asking import Answer, ExplainedQuestion
from .model import Candidate, in_places
from .reasons import Field, reason_for
from .words import us_text

__all__ = ["answer_by_following"]


def answer_by_following(asked: ExplainedQuestion, limit: int) -> Answer:
    """The answer of a rule whose outputs follow the operands.

    Raises:
        _core.Unsupported: the rule does not apply, and torch decides.
        ShardpropError: policy ``"optimal"`` has no answer, and leaves nothing to torch.
    """
    rule, policy, question = asked.rule, asked.policy, asked.question
    choice = asked.choose()
    operands = question.operands[: question.positional]
    with policy.one_decision():
        found = [
            Candidate(0, None, each.outputs, each.operands, costs, sum(costs))
            for each in rule.candidates(question)
            for costs in [tuple(candidate_costs(each, operands, policy.cost))]
        ]
    wanted = (choice.outputs, choice.operands, choice.cost)
    chosen = next(each for each in found if (each.outputs, each.operands, each.us) == wanted)
    # Those of equal cost stay in torch's order.
    candidates = in_places(sorted(found, key=lambda each: (each is not chosen, each.us)))
    dims = dim_names(choice.mesh)
    notes = _what_becomes(asked, operands, candidates[0], dims)
    count = len(candidates)
    if count == 1:
        reason = "follows operands"
        cost = us_text(choice.cost) if choice.cost else "nothing"
        costs = f"it costs {cost} to move them"
        if math.isinf(choice.cost):
            costs = "to move them has no finite price"
        why = f"The output follows the operands, there is no choice; {costs}."
    else:
        reason, why = reason_for(Field(candidates, count, None, operands, dims))
    return Answer(choice, candidates[:limit], reason, why, count, count, notes=notes)


def _what_becomes(
    asked: ExplainedQuestion,
    operands: Sequence[DTensorSpec],
    winner: Candidate,
    dims: Sequence[str],
) -> tuple[str, ...]:
    """Per operand and mesh dim what the op does with the placement, so far as it is not replicated;
    alike operands of a list share a sentence."""
    output = winner.outputs[0] if winner.outputs else None
    said: dict[str, list[str]] = {}
    for name, spec, wanted in zip(asked.names, operands, winner.operands, strict=False):
        for mesh_dim, (now, then) in enumerate(zip(spec.placements, wanted, strict=True)):
            given = None if output is None else output[mesh_dim]
            text = _becomes(now, then, given)
            if text:
                said.setdefault(f"{text} (mesh dim {dims[mesh_dim]})", []).append(f"`{name}`")
    return tuple(f"{_few(names)} {text}." for text, names in said.items())


def _few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more"


def _becomes(now: Placement, then: Placement, output: Placement | None) -> str | None:
    at_first, wanted = placement_text(now), placement_text(then)
    if now != then:
        if isinstance(now, Partial):
            return f"is {at_first}, which has to be reduced first: it becomes {wanted}"
        if isinstance(now, (Shard, StridedShard)) and isinstance(then, Replicate):
            return f"is {at_first}, but the op needs the whole of dim {now.dim}: it becomes R"
        return f"is {at_first} and has to become {wanted}"
    if isinstance(now, Replicate) or output is None:
        return None
    if now == output:
        return f"keeps {at_first}"
    if isinstance(output, Partial):
        return f"is {at_first}, which the op reduces: the output is {placement_text(output)}"
    return f"keeps {at_first}, which is {placement_text(output)} of the output"
