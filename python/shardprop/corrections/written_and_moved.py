"""Tensors that an op writes into, and that torch moves: the op writes into a copy."""

from __future__ import annotations

import torch

from .._torch import DTensorSpec, OpSchema, OutputSharding
from .correction import CallCorrection
from .operands import first, operands, shards_dim

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
    if schema.op in _NORMS:
        return _concerns_norm(schema)
    if schema.op in _OPTIMIZERS:
        return _concerns_optimizer(schema)
    return len({tuple(spec.placements) for spec in operands(schema)}) > 1


def _concerns_norm(schema: OpSchema) -> bool:
    """Running statistics are written in training, and have the channels alone."""
    is_training = len(schema.args_schema) < 8 or bool(schema.args_schema[5])
    running = [spec for spec in schema.args_schema[3:5] if isinstance(spec, DTensorSpec)]
    scales = [spec for spec in schema.args_schema[1:3] if isinstance(spec, DTensorSpec)]
    are_channels_cut = any(shards_dim(p, 1) for p in first(schema).placements) or any(
        shards_dim(p, 0) for spec in scales for p in spec.placements
    )
    are_whole = all(spec.is_replicated() for spec in running)
    return is_training and bool(running) and (are_channels_cut or not are_whole)


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
    (written, *_) = schema.args_spec
    wanted = answer.redistribute_schema
    moved = wanted is not None and wanted.args_spec[0].placements != written.placements
    made = answer.output_spec
    return not moved and isinstance(made, DTensorSpec) and made.placements == written.placements


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
