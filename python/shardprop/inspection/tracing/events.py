"""Turns what was stored while a trace was open into what can be read."""

from __future__ import annotations

from ... import _torch
from ..._torch import DTensorSpec, MovedOperand, TensorMeta
from ...model.operands import operands_of
from ...support.stats import DecidedBy
from .model import NOWHERE, Place, TracedDecision, TracedRedistribution
from .module_stack import Spot
from .plans import Plans
from .recording import Decided, Moved

__all__ = ["decision_of", "redistribution_of"]


def decision_of(event: Decided, began: float) -> TracedDecision:
    """A decision in words; `began` is when the trace did."""
    asked = event.asked
    decider, reason = asked.outcome or (DecidedBy.CORE, None)
    return TracedDecision(
        op=str(asked.schema.op),
        schema=asked.schema,
        output=asked.answer,
        error=None if asked.error is None else str(asked.error) or type(asked.error).__name__,
        decider=decider,
        reason=reason,
        correction=asked.correction,
        seconds=asked.seconds,
        place=_place(event.spot),
        policy=event.policy.name,
        at=asked.start - began,
        thread=event.spot[3],
        _decided_by=event.policy,
    )


def redistribution_of(event: Moved, began: float, plans: Plans) -> TracedRedistribution:
    """A redistribution in words; `began` is when the trace did."""
    moved = event.moved
    operand = moved if isinstance(moved, MovedOperand) else None
    op = moved if operand is None else operand.op
    return TracedRedistribution(
        op=None if op is None else str(op),
        operand=None if operand is None else _name(operand),
        src=event.src,
        dst=event.dst,
        explicit=op is None,
        at=event.start - began,
        seconds=event.seconds,
        correction=event.correction,
        place=_place(event.spot),
        policy=event.policy.name,
        thread=event.spot[3],
        _planner=event.policy,
        _plans=plans,
    )


def _name(moved: MovedOperand) -> str | None:
    """What the op calls an operand."""
    args = _torch.tree_unflatten([*moved.args], moved.tree) if moved.tree else moved.args
    operands = operands_of(moved.op, args, {})
    place = sum(isinstance(x, (DTensorSpec, TensorMeta)) for x in moved.args[: moved.place])
    return operands[place].name if place < len(operands) else None


def _place(spot: Spot) -> Place:
    module, line, backward, _ = spot
    if line is None:
        return Place(module=module, backward=backward) if module or backward else NOWHERE
    code, number = line
    function = getattr(code, "co_qualname", code.co_name)
    return Place(module, code.co_filename, number, function, backward)
