"""Tensors that an op writes into, and that torch moves: the op writes into a copy."""

from __future__ import annotations

import torch

from .._torch import DTensorSpec, OpSchema, OutputSharding
from ..model.op_traits import traits_of
from .correction import CallCorrection
from .operands import argument, operands

aten = torch.ops.aten
prims = torch.ops.prims

_NORMS = (
    aten.native_batch_norm.default,
    aten._native_batch_norm_legit.default,
    aten._batch_norm_with_update.default,
    aten.native_batch_norm.out,
    aten._native_batch_norm_legit.out,
    aten._batch_norm_with_update.out,
)
_OTHERS = (prims.copy_to.default, aten.rrelu_with_noise.default)
# Parameters stay where they are, but the states beside them do not.
_OPTIMIZERS = (
    aten._fused_adam_.default,
    aten._fused_adam_.tensor_lr,
    aten._fused_adamw_.default,
    aten._fused_adamw_.tensor_lr,
)


def _concerns(schema: OpSchema) -> bool:
    if schema.op in _OPTIMIZERS:
        return _concerns_optimizer(schema)
    is_placed = not all(spec.is_replicated() for spec in operands(schema))
    return is_placed and _writes(schema)


def _writes(schema: OpSchema) -> bool:
    """Does this call write what others of the op do? Running statistics are written in training,
    and so is the noise of `rrelu`."""
    if schema.op is aten.rrelu_with_noise.default:
        return bool(argument(schema, 4, False))
    if schema.op in _NORMS:
        is_training = len(schema.args_schema) < 8 or bool(schema.args_schema[5])
        return is_training and any(isinstance(x, DTensorSpec) for x in schema.args_schema[3:5])
    return True


def _concerns_optimizer(schema: OpSchema) -> bool:
    """States are written as parameters are, and have the dims of these. Counts of steps have none;
    they are replicated."""
    parameters, _, *states = (arg for arg in schema.args_schema if isinstance(arg, (list, tuple)))
    return any(
        isinstance(state, DTensorSpec)
        and state.ndim > 0
        and state.placements != parameter.placements
        for each in states
        for parameter, state in zip(parameters, each, strict=False)
    )


def _leaves(schema: OpSchema, answer: OutputSharding) -> bool:
    """Does torch's decision of an in-place op leave what is written into? That of an op with
    ``out=`` is right where nothing is sharded or pending."""
    if schema.is_out_variant_op():
        return all(spec.is_replicated() for spec in operands(schema))
    positions = traits_of(schema.op).written
    given, wanted = schema.args_schema, answer.redistribute_schema
    asked = given if wanted is None else wanted.args_schema
    written = [(_layout(given[at]), _layout(asked[at])) for at in positions]
    made = answer.output_spec
    is_returned = made is None or 0 not in positions or _layout(made) == written[0][0]
    return is_returned and all(before == after for before, after in written)


def _layout(argument: object) -> object:
    """Its placements, of a list those of each tensor."""
    if isinstance(argument, (list, tuple)):
        return [*map(_layout, argument)]
    return argument.placements if isinstance(argument, DTensorSpec) else None


WRITTEN_AND_MOVED = CallCorrection(
    name="operand that is written into and moved",
    ops=(*_NORMS, *_OTHERS, *_OPTIMIZERS),
    where="in-place ops and ops with `out=` that torch decides by their decomposition (`addmv_`, "
    "`hardswish_`, `renorm_`, `floor_divide_`); running statistics of batch norm in training; "
    "states of fused Adam that are placed otherwise than the parameters",
    concerns=_concerns,
    fault="moves what the op writes into: each rank writes into a copy that is dropped. The "
    "tensor stays as it was, and is said to be placed as the copy.",
    right="chooses among the strategies that leave it where it is; where there is none, the call "
    "is refused.",
    ends="a search of torch's that pins what the schema says is written into.",
    in_rows=(*_NORMS, *_OTHERS, *_OPTIMIZERS),
    spares=_leaves,
    leaves_written=True,
)
