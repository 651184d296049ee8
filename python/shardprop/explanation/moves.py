"""What the winner moves, and by which plan."""

from __future__ import annotations

from collections.abc import Sequence

from .._torch import DTensorSpec
from ..engine import Choice
from ..errors import ShardpropError
from ..kinds import has_strided
from ..outputs import moves
from ..query import plan
from ..redistribute_plan import Plan
from .asking import Asked
from .model import OperandMove
from .words import us_text

__all__ = ["move_of", "moves_of", "priced_too_low"]

# Microseconds by which a price and the plan may differ before it is worth a word.
_WORTH_A_WORD_US = 0.1


def moves_of(asked: Asked, choice: Choice) -> tuple[OperandMove, ...]:
    """The operands that torch's dispatcher redistributes; keyword arguments it never does."""
    maker = asked.spec_maker(choice.strided_is_order)
    operands: Sequence[DTensorSpec] = asked.operands[: asked.question.positional]
    return tuple(
        move_of(index, asked.names[index], spec, maker.wanted(spec, choice, index), price)
        for index, (spec, price) in enumerate(zip(operands, choice.operand_costs, strict=False))
        if moves(spec, choice, index)
    )


def move_of(operand: int, name: str, src: DTensorSpec, dst: DTensorSpec, us: float) -> OperandMove:
    """One of them, planned as the policy that is enabled plans it."""
    return OperandMove(operand, name, src, dst, us, _plan(src, dst))


def priced_too_low(moves: Sequence[OperandMove]) -> tuple[str, ...]:
    """A note for each operand whose plan costs more than the price that it was decided by.

    torch takes whatever happens to a strided shard for free, though it may be a collective.
    """
    return tuple(
        f"Moving `{move.name}` was priced at {us_text(move.us)}, but by the same model its plan "
        f"costs {us_text(move.plan.cost_us)}"
        + (": torch takes moves of strided shards for free." if has_strided(placements) else ".")
        for move in moves
        for placements in [(*move.src.placements, *move.dst.placements)]
        if move.plan is not None and move.plan.cost_us > move.us + _WORTH_A_WORD_US
    )


def _plan(src: DTensorSpec, dst: DTensorSpec) -> Plan | None:
    """None where the core has no plan, or this rank does not belong to the mesh."""
    try:
        return plan(src, dst)
    except ShardpropError:
        return None
