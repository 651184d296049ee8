"""Handlers of ours in the place of those of torch's dispatcher, or where it has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import _dispatch, _tp_conv
from torch.utils._python_dispatch import return_and_correct_aliasing

from .op_outputs import wrapped
from .placements import is_shard
from .registries import put_back
from .specs import has_default_order
from .types import DTensor, DTensorSpec, OpOverload, Partial, Placement, Replicate

aten = torch.ops.aten

Handler = Callable[[OpOverload, tuple[Any, ...], dict[str, object]], Any]

# Handlers of torch's that ask the propagator, and then move no operand as they are answered.
MOVING_NOTHING: Mapping[OpOverload, Handler] = {
    aten.convolution.default: _tp_conv.convolution_handler,
    aten.convolution_backward.default: _tp_conv.convolution_backward_handler,
}

# What these run on what a rank holds, with the dims of the first tensor that are sharded.
_ON_LOCAL_TENSORS: Mapping[OpOverload, Callable[..., Any]] = {
    aten.convolution.default: _tp_conv.tp_convolution,
    aten.convolution_backward.default: _tp_conv.tp_convolution_backward,
}

# Ops that torch's dispatcher takes for in-place ones, since their names end in "_": it returns the
# operand itself. With each the op that it means.
MEANT: Mapping[OpOverload, OpOverload] = {
    aten.__lshift__.Scalar: aten.bitwise_left_shift.Tensor_Scalar,
    aten.__lshift__.Tensor: aten.bitwise_left_shift.Tensor,
    aten.__rshift__.Scalar: aten.bitwise_right_shift.Tensor_Scalar,
    aten.__rshift__.Tensor: aten.bitwise_right_shift.Tensor,
    # Outside of inference mode these come apart before the dispatcher sees them.
    aten.__and__.Scalar: aten.bitwise_and.Scalar,
    aten.__and__.Tensor: aten.bitwise_and.Tensor,
    aten.__or__.Scalar: aten.bitwise_or.Scalar,
    aten.__or__.Tensor: aten.bitwise_or.Tensor,
    aten.__xor__.Scalar: aten.bitwise_xor.Scalar,
    aten.__xor__.Tensor: aten.bitwise_xor.Tensor,
}

# Unscales gradients and notes whether one has an infinity; torch's handler reduces what is noted.
UNSCALE = aten._amp_foreach_non_finite_check_and_unscale_.default
REDUCING_FOUND: Handler = _dispatch.found_inf_reduce_handler

# What the fault is called that the handler of these ops has in common with those of convolutions.
ARGMAX_MOVES_NOTHING = "argmax that moves nothing"
RESHAPED_IN_PLACE = "reshape in place that leaves the shape"
_ARGMINMAX: Handler = _dispatch.argminmax_handler  # type: ignore[attr-defined]


def _asked(op_call: OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> Any:
    """A call as the dispatcher has it, and its decision."""
    dispatcher = DTensor._op_dispatcher
    asked = dispatcher.unwrap_to_op_info(op_call, args, kwargs)
    dispatcher.sharding_propagator.propagate(asked)
    return asked


def _decided(op_call: OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> Any:
    """The decision of a call."""
    return _asked(op_call, args, kwargs).output_sharding


def _moved(args: tuple[Any, ...], decision: Any) -> tuple[Any, ...]:
    """The arguments of a call, with operands where its decision wants them."""
    if decision is None or decision.redistribute_schema is None:
        return args
    return tuple(
        arg.redistribute(placements=to.placements) if isinstance(arg, DTensor) else arg
        for arg, to in zip(args, decision.redistribute_schema.args_schema, strict=True)
    )


def _convolution(op_call: OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> Any:
    """What torch's handler does, with operands where the decision wants them."""
    is_backward = op_call is aten.convolution_backward.default
    if is_backward:
        # torch's handler does this before it asks; but a gradient is whole where a sum is pending.
        image = args[1]
        placements = [Replicate() if p.is_partial() else p for p in image.placements]
        args = (args[0].redistribute(image.device_mesh, placements), *args[1:])
    dispatcher = DTensor._op_dispatcher
    asked = _asked(op_call, args, kwargs)
    decision = asked.output_sharding
    first: DTensorSpec = asked.schema.args_schema[0]
    if decision.redistribute_schema is not None:
        # Plain tensors among the operands are moved, too.
        dispatcher.redistribute_local_args(asked, decision.redistribute_schema, False)
        first = decision.redistribute_schema.args_schema[0]
    local = tuple(asked.local_args)
    placed: DTensorSpec = first if is_backward else decision.output_spec
    made = _ON_LOCAL_TENSORS[op_call](op_call, local, asked.local_kwargs, placed.dim_map)
    return dispatcher.wrap(made, decision.output_spec)


def _argminmax(op_call: OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> Any:
    """torch's handler, given the whole operand where it gets shards wrong, and one that is placed
    as decided where the output is to be placed otherwise than the handler leaves it."""
    operand: DTensor = args[0]
    reduced = [_is_reduced(p, operand.ndim, *args[1:2]) for p in operand.placements]
    if not any(reduced) and has_default_order(operand._spec):
        return _ARGMINMAX(op_call, args, kwargs)
    fault = _fault_of(op_call, args)
    if not any(reduced):
        with _noted(fault or ""):
            return _ARGMINMAX(op_call, (_in_order(op_call, args, kwargs), *args[1:]), kwargs)
    if fault is not None:
        whole = [Replicate() if is_shard(p) else p for p in operand.placements]
        with _noted(fault):
            gathered = operand.redistribute(placements=whole)
            return _ARGMINMAX(op_call, (gathered, *args[1:]), kwargs)
    decision = _decided(op_call, args, kwargs)
    kept = zip(operand.placements, reduced, decision.output_spec.placements, strict=True)
    if all(is_shard(p) is (is_shard(given) and not gone) for given, gone, p in kept):
        return _ARGMINMAX(op_call, args, kwargs)
    with _noted(ARGMAX_MOVES_NOTHING):
        return _ARGMINMAX(op_call, _moved(args, decision), kwargs)


def _in_order(op_call: OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> DTensor:
    """The first operand in the shard order in which it is decided to be."""
    asked = _asked(op_call, args, kwargs)
    schema = asked.output_sharding.redistribute_schema
    if schema is None:
        return args[0]  # type: ignore[no-any-return]
    DTensor._op_dispatcher.redistribute_local_args(asked, schema, False)
    return wrapped(asked.local_args[0], schema.args_schema[0])


def _is_reduced(placement: Placement, ndim: int, dim: int | None = None) -> bool:
    """Is it a shard of a dim that is reduced (None: all are)?"""
    if not is_shard(placement):
        return False
    return dim is None or placement.dim == dim % ndim  # type: ignore[attr-defined]


def _meant(op_call: OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> Any:
    """The op that is meant."""
    with _noted(_fault_of(op_call, args) or ""):
        return MEANT[op_call](*args, **kwargs)


def _reshape_in_place(op_call: OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> Any:
    """What torch's dispatcher does, which gives the tensor its new shape only where a shard has
    another dim then."""
    tensor: DTensor = args[0]
    decision = _decided(op_call, args, kwargs)
    spec, rewritten = decision.output_spec, decision.redistribute_schema
    op, rest = (
        (op_call, args[1:]) if rewritten is None else (rewritten.op, rewritten.args_schema[1:])
    )
    is_left = spec.placements == tensor.placements and spec.shape != tensor.shape
    with _noted(RESHAPED_IN_PLACE) if is_left else nullcontext():
        if tensor.device_mesh.get_coordinate() is not None:
            op(tensor._local_tensor, *rest)
        tensor._spec = spec
        return return_and_correct_aliasing(op_call, args, kwargs, tensor)  # type: ignore[no-untyped-call]


def _unscale(op_call: OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> None:
    """torch's handler, given the whole scale, and what ranks found reduced further: torch reduces
    it as the first gradient is placed, and into a plain tensor alone."""
    gradients, found, scale = args
    fault = _fault_of(op_call, args)
    if fault is None:
        REDUCING_FOUND(op_call, args, kwargs)
        return
    with _noted(fault):
        # Of no dims, for torch warns of others that are no DTensors.
        found = found._local_tensor.view(()) if isinstance(found, DTensor) else found
        if isinstance(scale, DTensor):
            scale = scale.redistribute(placements=[Replicate()] * scale.device_mesh.ndim)
        REDUCING_FOUND(op_call, (gradients, found, scale), kwargs)
        for mesh, placements in _yet_to_reduce(gradients):
            if mesh.get_coordinate() is not None:
                part = DTensor.from_local(found, mesh, placements, run_check=False)
                found.copy_(part.full_tensor())


def _yet_to_reduce(gradients: Sequence[DTensor]) -> list[tuple[DeviceMesh, list[Placement]]]:
    """How the maxima that ranks have are placed, mesh after mesh, once torch has reduced them as
    the first gradient is placed."""
    first = gradients[0]
    meshes = list(dict.fromkeys(each.device_mesh for each in gradients))
    if len(meshes) > 1:
        # What the ranks of one mesh know passes on to the others, whichever ranks these have.
        return [(mesh, [Partial("max")] * mesh.ndim) for _ in meshes for mesh in meshes]
    others = zip(*(each.placements for each in gradients), strict=True)
    placements: list[Placement] = [
        Partial("max") if of_first.is_replicate() and not _are_replicas(of_all) else Replicate()
        for of_first, of_all in zip(first.placements, others, strict=True)
    ]
    return [(first.device_mesh, placements)]


def _are_replicas(placements: Sequence[Placement]) -> bool:
    return all(placement.is_replicate() for placement in placements)


MOVING_AS_DECIDED, GATHERING_FIRST, RESHAPING = _convolution, _argminmax, _reshape_in_place
UNSCALING = _unscale

# Per op what torch has, and what stands in its place.
_REPLACED: Mapping[OpOverload, tuple[Handler | None, Handler]] = {
    **{op: (handler, _convolution) for op, handler in MOVING_NOTHING.items()},
    **dict.fromkeys((aten.argmax.default, aten.argmin.default), (_ARGMINMAX, _argminmax)),
    UNSCALE: (REDUCING_FOUND, _unscale),
    **dict.fromkeys(MEANT, (None, _meant)),
    **dict.fromkeys(
        (aten.squeeze_.default, aten.squeeze_.dim, aten.squeeze_.dims, aten.t_.default),
        (None, _reshape_in_place),
    ),
}
# Ops for which torch has none.
HANDLED_BY_US = frozenset(op for op, (torchs, _) in _REPLACED.items() if torchs is None)


def _none(_: OpOverload, __: tuple[Any, ...]) -> str | None:
    return None


# As the last `put_handlers_right` gave them.
_noted: Callable[[str], AbstractContextManager[object]] = nullcontext
_fault_of: Callable[[OpOverload, tuple[Any, ...]], str | None] = _none


def _handlers() -> dict[OpOverload, Handler]:
    return DTensor._op_dispatcher._custom_op_handlers  # type: ignore[return-value]


def put_handlers_right(
    noted: Callable[[str], AbstractContextManager[object]],
    fault_of: Callable[[OpOverload, tuple[Any, ...]], str | None],
) -> None:
    """Have the operands of convolutions moved as decided, what `argmin` and `argmax` get wrong
    gathered, ops run that torch's dispatcher takes for in-place ones, tensors reshaped that are
    squeezed in place, and infinities in gradients told to all ranks.

    Args:
        noted: Entered around what a handler does otherwise than torch, with the fault.
        fault_of: The fault that torch's handling of a call has; None if it has none.
    """
    global _noted, _fault_of
    _noted, _fault_of = noted, fault_of
    handlers = _handlers()
    for op, (torchs, ours) in _REPLACED.items():
        if handlers.get(op) is torchs:  # else the program has put its own there
            handlers[op] = ours


def put_handlers_back() -> None:
    """Undo `put_handlers_right`."""
    for op, (torchs, ours) in _REPLACED.items():
        put_back(_handlers(), op, ours, torchs)
