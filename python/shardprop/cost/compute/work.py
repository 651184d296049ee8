"""What one call does on one device, whatever the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ... import _torch
from ..._torch import OpOverload
from ...errors import ShardpropError
from .call import Call, Operand, bind
from .formulas import formula_of
from .free import is_free, is_free_here
from .traffic import bytes_moved, values_read

__all__ = ["NOTHING", "Work", "checked_op", "key_of", "work_in", "work_of"]


class Work(NamedTuple):
    """What has to be done.

    Attributes:
        kernels: Launches: 1, or 0 of an op that runs nothing, such as a view.
        flops: Operations of matrix products, a multiplication and an addition being two. Those of
            pointwise ops and reductions are not counted: their bytes take longer.
        bytes: Read from memory and written to it.
        dtype: The type that the flops are done in; None where there are none.
    """

    kernels: int
    flops: int
    bytes: int
    dtype: torch.dtype | None


NOTHING = Work(0, 0, 0, None)


def work_of(
    op: object, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, outputs: object = None
) -> Work:
    """What one call does.

    Args:
        op: An OpOverload, or ``operator.getitem``.
        args: Its arguments, with ``TensorMeta(shape, stride, dtype)`` of local tensors.
        kwargs: Likewise.
        outputs: TensorMeta, a sequence of TensorMeta or None, or None: those of this device.

    Raises:
        ShardpropError: the op or an argument is something else; the shapes do not go together as
            far as a formula of torch's looks at them.
    """
    known = checked_op(op)
    return NOTHING if known is None else work_in(bind(known, args, kwargs or {}, outputs))


def checked_op(op: object) -> OpOverload | None:
    """The op if it may run something; None if it never does.

    Raises:
        ShardpropError: it is no op.
    """
    if is_free(op):
        return None
    if not isinstance(op, OpOverload):
        raise ShardpropError(
            f"Expected an overload of an op such as torch.ops.aten.mm.default, got {op!r}."
        )
    return op


def work_in(call: Call) -> Work:
    """What a call does that is bound already."""
    if is_free_here(call):
        return NOTHING
    outputs = [output for output in call.outputs if output is not None]
    if outputs and all(output.elements == 0 for output in outputs):
        return Work(1, 0, 0, None)
    flops, dtype = _flops(call)
    return Work(1, flops, bytes_moved(call), dtype if flops else None)


def key_of(call: Call) -> tuple[object, ...]:
    """Calls of equal keys do equal work."""
    formula = formula_of(call.schema.name)
    if formula is None and _torch.flop_formula(call.op) is not None:
        return (call.op, call.tensors, call.outputs, repr((call.args, call.kwargs)))
    names = (*(() if formula is None else formula.values), *values_read(call.schema.name))
    values = tuple(_hashable(call.values.get(name)) for name in names)
    # Of lists it matters which arguments they are: index(self, [None, i]), an absent weight.
    return (call.op, call.tensors, tuple(call.places.items()), call.outputs, values)


def _hashable(value: object) -> object:
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value


def _flops(call: Call) -> tuple[int, torch.dtype | None]:
    formula = formula_of(call.schema.name)
    if formula is not None:
        operands = call.tensors_of(formula.operand)
        try:
            return formula.count(call), operands[0].dtype if operands else None
        except (IndexError, KeyError, TypeError) as error:  # dims or arguments that are not there
            raise _unfit(call, error) from error
    theirs = _torch.flop_formula(call.op)
    if theirs is None:
        return 0, None
    return _flops_by_torch(call, theirs), _type_computed_in(call.tensors)


def _flops_by_torch(call: Call, formula: Any) -> int:
    """By a formula of torch's registry, which counts on tensors."""
    operands = iter(call.tensors)
    with _torch.no_dispatch():
        args = [_on_meta(value, operands) for value in call.args]
        kwargs = {name: _on_meta(value, operands) for name, value in call.kwargs.items()}
        outputs = [None if o is None else _meta_tensor(o) for o in call.outputs]
        output = outputs[0] if call.schema.returns == 1 and len(outputs) == 1 else tuple(outputs)
        try:
            return int(formula(*args, **kwargs, out_val=output))
        except Exception as error:
            raise _unfit(call, error) from error


def _unfit(call: Call, error: Exception) -> ShardpropError:
    return ShardpropError(
        f"{call.op}: Expected arguments and local shapes that its flop formula takes, got tensors "
        f"of {[operand.shape for operand in call.tensors]}: {type(error).__name__}: {error}"
    )


def _on_meta(value: Any, operands: Any) -> Any:
    if isinstance(value, _torch.TensorMeta):
        return _meta_tensor(next(operands))
    if isinstance(value, (list, tuple)):
        return type(value)(_on_meta(item, operands) for item in value)
    return value


def _meta_tensor(operand: Operand) -> torch.Tensor:
    return torch.empty(operand.shape, dtype=operand.dtype, device="meta")


def _type_computed_in(tensors: Sequence[Operand]) -> torch.dtype | None:
    """That of the first operand of a floating type, else of the first."""
    types = [operand.dtype for operand in tensors]
    return next((each for each in types if each.is_floating_point), types[0] if types else None)
