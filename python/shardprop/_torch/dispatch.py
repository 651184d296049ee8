"""torch's dispatcher of DTensor ops: its special handlers, and for whom it moves an operand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple

from torch.distributed.tensor import _dispatch

from .handlers import (
    GATHERING_FIRST,
    MOVING_AS_DECIDED,
    MOVING_NOTHING,
    REDUCING_FOUND,
    RESHAPING,
    UNSCALING,
)
from .types import DTensor, OpOverload

# The handlers that ask the propagator and do something more around it.
_MOVING_AS_DECIDED = frozenset([MOVING_AS_DECIDED, RESHAPING])
_ASKING_HANDLERS = _MOVING_AS_DECIDED.union(
    [_dispatch.argminmax_handler, GATHERING_FIRST, *MOVING_NOTHING.values()]  # type: ignore[attr-defined]
)
ASKING_CODES = frozenset(handler.__code__ for handler in _ASKING_HANDLERS)


def handlers() -> Mapping[OpOverload, Callable[..., Any]]:
    """Ops that torch's dispatcher hands to a function, with these."""
    found: Mapping[OpOverload, Callable[..., Any]] = DTensor._op_dispatcher._custom_op_handlers
    return found


def handler_instead(op: OpOverload) -> Callable[..., Any] | None:
    """The function that torch's dispatcher hands an op to, and that asks for no decision about it:
    torch's own, where one of ours calls it. None for other ops."""
    handler = handlers().get(op)
    if handler is UNSCALING:
        return REDUCING_FOUND
    return None if handler in _ASKING_HANDLERS else handler


def ops_handled_instead() -> set[OpOverload]:
    """Ops that torch's dispatcher hands to a function which asks for no decision about them."""
    return {op for op in handlers() if handler_instead(op) is not None}


def handler_around_propagation(op: OpOverload) -> Callable[..., Any] | None:
    """The function that torch's dispatcher hands an op to, and that asks for a decision and moves
    operands by itself, if at all, not as the decision says. None for other ops."""
    handler = handlers().get(op)
    return handler if handler in _ASKING_HANDLERS - _MOVING_AS_DECIDED else None


class MovedOperand(NamedTuple):
    """What torch's dispatcher redistributes for an op.

    Attributes:
        op: The overload.
        args: Its arguments, flat, with specs in place of tensors.
        tree: Where in the op's lists they belong; None if none is in a list.
        place: Which of `args` is moved.
    """

    op: OpOverload
    args: Sequence[Any]
    tree: Any
    place: int


MOVING_CODE = type(DTensor._op_dispatcher).redistribute_local_args.__code__


def moved_for(depth: int, is_users: Callable[[str], bool]) -> MovedOperand | OpOverload | None:
    """For whom the function `depth` frames up redistributes: an operand of an op, or an op one of
    whose handlers moves something by itself, or None: the program asked for it.

    None of torch's functions between calls code of the user's: a frame of the user's ends the
    search.
    """
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        if code is MOVING_CODE:
            found = frame.f_locals
            moved = found["op_info"]
            op = found["suggested_input_schema"].op
            return MovedOperand(op, moved.flat_args_schema, moved.args_tree_spec, found["i"])
        if code in ASKING_CODES:
            return frame.f_locals["op_call"]  # type: ignore[no-any-return]
        if is_users(code.co_filename):
            return None
        frame = frame.f_back
    return None
