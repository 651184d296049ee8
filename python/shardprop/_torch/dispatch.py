"""torch's dispatcher of DTensor ops: its special handlers, and for whom it moves an operand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch.distributed.tensor import _dispatch, _tp_conv

from .types import DTensor, OpOverload

# Handlers of torch's that ask the propagator, and then move no operand as they are answered.
_MOVING_NOTHING = {
    torch.ops.aten.convolution.default: _tp_conv.convolution_handler,
    torch.ops.aten.convolution_backward.default: _tp_conv.convolution_backward_handler,
}


def _convolution_handler(
    op_call: OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]
) -> Any:
    """torch's handler, given operands where the decision wants them."""
    dispatcher = DTensor._op_dispatcher
    if op_call is torch.ops.aten.convolution_backward.default:
        # torch's handler does this before it asks.
        args = (args[0].redistribute(args[1].device_mesh, args[1].placements), *args[1:])
    asked = dispatcher.unwrap_to_op_info(op_call, args, kwargs)
    dispatcher.sharding_propagator.propagate(asked)
    sharding = asked.output_sharding
    if sharding is not None and sharding.redistribute_schema is not None:
        wanted: tuple[Any, ...] = sharding.redistribute_schema.args_schema
        args = tuple(
            arg.redistribute(placements=to.placements) if isinstance(arg, DTensor) else arg
            for arg, to in zip(args, wanted, strict=True)
        )
    return _MOVING_NOTHING[op_call](op_call, args, kwargs)


# The handlers that ask the propagator and do something more around it.
_ASKING_HANDLERS = frozenset(
    [_dispatch.argminmax_handler, *_MOVING_NOTHING.values(), _convolution_handler]  # type: ignore[attr-defined]
)
ASKING_CODES = frozenset(handler.__code__ for handler in _ASKING_HANDLERS)


def handlers() -> Mapping[OpOverload, Callable[..., Any]]:
    """Ops that torch's dispatcher hands to a function, with these."""
    found: Mapping[OpOverload, Callable[..., Any]] = DTensor._op_dispatcher._custom_op_handlers
    return found


def handler_instead(op: OpOverload) -> Callable[..., Any] | None:
    """The function that torch's dispatcher hands an op to, and that asks for no decision about it.
    None for other ops."""
    handler = handlers().get(op)
    return None if handler in _ASKING_HANDLERS else handler


def ops_handled_instead() -> set[OpOverload]:
    """Ops that torch's dispatcher hands to a function which asks for no decision about them."""
    return {op for op in handlers() if handler_instead(op) is not None}


def handler_around_propagation(op: OpOverload) -> Callable[..., Any] | None:
    """The function that torch's dispatcher hands an op to, and that asks for a decision: it moves
    operands by itself, if at all, not as the decision says. None for other ops."""
    handler = handlers().get(op)
    return handler if handler in _ASKING_HANDLERS else None


def put_handlers_right() -> None:
    """Have the operands of convolutions moved as decided."""
    ours = DTensor._op_dispatcher._custom_op_handlers
    for op, handler in _MOVING_NOTHING.items():
        if ours.get(op) is handler:  # else the program has put its own there
            ours[op] = _convolution_handler


def put_handlers_back() -> None:
    """Undo `put_handlers_right`."""
    ours = DTensor._op_dispatcher._custom_op_handlers
    for op, handler in _MOVING_NOTHING.items():
        if ours.get(op) is _convolution_handler:
            ours[op] = handler


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
