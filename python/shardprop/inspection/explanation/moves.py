"""What the winner moves, and by which plan."""

from __future__ import annotations

from collections.abc import Sequence

from ... import _torch
from ..._torch import DTensorSpec, OutputSharding, Partial, has_strided, is_strided
from ...errors import ShardpropError
from ...model.plan_steps import Step
from ...model.question import Choice, Question
from ...propagation.answer import moves, suggestion, wanted_specs
from ...propagation.move_costs import is_placed_alike, move_costs
from ...propagation.query import plan
from ...propagation.shard_orders import in_one_order
from ...redistribution.plan import Plan
from ...rules.torch_registry import op_schema
from .asking import ExplainedQuestion
from .model import OperandMove
from .words import spec_text, us_text

__all__ = ["move_of", "moves_of", "notes_of"]


def moves_of(asked: ExplainedQuestion, choice: Choice) -> tuple[OperandMove, ...]:
    """The operands that torch's dispatcher redistributes; keyword arguments it never does."""
    maker = asked.spec_maker(choice.strided_is_order)
    given = asked.reordered or asked.question
    operands: Sequence[DTensorSpec] = given.operands[: given.positional]
    wanted = [maker.wanted(spec, choice, index) for index, spec in enumerate(operands)]
    prices = choice.operand_costs
    if given is asked.reordered:
        wanted = _in_one_order(given, wanted)
        prices = move_costs(asked.policy, zip(operands, wanted, strict=True))
        moved = [not is_placed_alike(*pair) for pair in zip(operands, wanted, strict=True)]
    else:
        moved = [moves(spec, choice, index) for index, spec in enumerate(operands)]
    return tuple(
        move_of(index, asked.names[index], operands[index], wanted[index], price)
        for index, price in enumerate(prices[: len(operands)])
        if moved[index]
    )


def _in_one_order(question: Question, wanted: Sequence[DTensorSpec]) -> list[DTensorSpec]:
    """What a decision wants of the operands, in the shard orders in which it is carried out."""
    schema = op_schema(question.op, tuple(question.args), question.kwargs)
    asked = OutputSharding(None, suggestion(schema, wanted), needs_redistribute=True)
    return [*wanted_specs(schema, in_one_order(schema, asked))]


def move_of(operand: int, name: str, src: DTensorSpec, dst: DTensorSpec, us: float) -> OperandMove:
    """One of them, planned as the policy that is enabled plans it."""
    return OperandMove(operand, name, src, dst, us, _plan(src, dst))


def notes_of(moves: Sequence[OperandMove]) -> tuple[str, ...]:
    """What there is to say of moves that do not run as they are priced, or not at all."""
    return *_refused(moves), *_priced_too_low(moves)


def _refused(moves: Sequence[OperandMove]) -> tuple[str, ...]:
    """A note for each operand that torch cannot move: it decides so, and then raises."""
    return tuple(
        f"torch raises when the op runs: it cannot move `{move.name}` from {spec_text(move.src)} "
        f"to {spec_text(move.dst)}."
        for move in moves
        if move.plan is None and _is_refused(_planned(move.src, move.dst))
    )


def _priced_too_low(moves: Sequence[OperandMove]) -> tuple[str, ...]:
    """A note for each operand whose plan costs more than the price that it was decided by.

    torch takes whatever happens to a strided shard for free, though it may be a collective.
    """
    return tuple(
        f"Moving `{move.name}` was priced at {us_text(move.us)}, but by the same model its plan "
        f"costs {us_text(move.planned_us)}"
        + (": torch takes moves of strided shards for free." if has_strided(placements) else ".")
        for move in moves
        for placements in [(*move.src.placements, *move.dst.placements)]
        if move.is_priced_too_low
    )


def _plan(src: DTensorSpec, dst: DTensorSpec) -> Plan | None:
    """None where the core has no plan, torch does not carry it out, or this rank does not belong to
    the mesh."""
    found = _planned(src, dst)
    return None if _is_refused(found) else found


def _is_refused(plan: Plan | None) -> bool:
    """Is there a step that torch's planner knows, and its redistribution does not?"""
    return plan is not None and plan.policy == "torch" and any(map(_is_refused_step, plan.steps))


def _is_refused_step(step: Step) -> bool:
    """A shard becomes pending: torch from 2.15 on fills a plain one up, to be summed."""
    if step.kind != "zero_fill":
        return False
    (mesh_dim,) = step.mesh_dims
    fills = _torch.IS_215_OR_LATER and not is_strided(step.before.placements[mesh_dim])
    return not fills or step.after.placements[mesh_dim] != Partial("sum")


def _planned(src: DTensorSpec, dst: DTensorSpec) -> Plan | None:
    try:
        return plan(src, dst)
    except ShardpropError:
        return None
