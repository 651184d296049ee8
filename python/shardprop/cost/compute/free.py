"""Ops that run nothing on the device."""

from __future__ import annotations

import operator

from ..._torch import OpOverload, function_schema
from .call import Call

__all__ = ["is_free", "is_free_here"]

# Memory is set aside, and nothing is written to it; sizes are read on the host; views that their
# schemas do not own up to. What _assert_tensor_metadata looks at is on the host, too.
_FREE = frozenset(
    f"aten::{name}"
    for name in (
        "_assert_tensor_metadata",
        "_unsafe_view",
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "is_same_size",
        "new_empty",
        "new_empty_strided",
        "sym_is_contiguous",
        "sym_numel",
        "sym_size",
        "sym_storage_offset",
        "sym_stride",
    )
)

# Views by their schemas, which are copies where the operand does not allow a view.
_MAY_COPY = frozenset(
    f"aten::{name}"
    for name in (
        "_autocast_to_full_precision",
        "_autocast_to_reduced_precision",
        "coalesce",
        "contiguous",
        "cpu",
        "cuda",
        "flatten",
        "pin_memory",
        "ravel",
        "reshape",
        "reshape_as",
        "resolve_conj",
        "resolve_neg",
        "to",
    )
)


def is_free(op: object) -> bool:
    """Does it run nothing, whatever it is called with?

    A view: by its schema each output is an operand's memory, and none of it is written.
    """
    if not isinstance(op, OpOverload):
        return op is operator.getitem
    name = function_schema(op).name
    return name in _FREE or (bool(op.is_view) and name not in _MAY_COPY)


def is_free_here(call: Call) -> bool:
    """Is an op that may copy a view of this operand? Of any that is contiguous and keeps its type;
    of others it may be one too, which then costs too much."""
    if call.schema.name not in _MAY_COPY or not call.tensors:
        return False
    operand = call.tensors[0]
    return operand.row_major and all(
        output is None or output.dtype == operand.dtype for output in call.outputs
    )
