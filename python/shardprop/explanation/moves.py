"""What the winner moves, and by which plan."""

from __future__ import annotations

from collections.abc import Sequence

from .._torch import DTensorSpec
from ..engine import Choice
from ..errors import ShardpropError
from ..outputs import moves
from ..query import plan
from ..redistribute_plan import Plan
from .asking import Asked
from .model import OperandMove

__all__ = ["move_of", "moves_of"]


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


def _plan(src: DTensorSpec, dst: DTensorSpec) -> Plan | None:
    """None where the core has no plan, or this rank does not belong to the mesh."""
    try:
        return plan(src, dst)
    except ShardpropError:
        return None
