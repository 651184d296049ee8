"""Shape, stride and dtype of an op's outputs, by the cheapest means that is torch's own.

torch runs the op on fake tensors; its shapes, strides, dtypes and errors must be ours. Where that
takes the long way round, a shorter one is taken, provided that it was shown to give the same:

1. a closed form: a formula for the op's outputs;
2. meta tensors: the op's meta kernel, without the fake mode around it;
3. fake tensors: what torch does, save that one mode is kept.

What the latter two answer is held for other placements of the same operands (`known`).

`class_of` tells which one an op falls under and why. A cheaper means never has the last word on an
error: whatever it raises, the next one is asked, and at last torch.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import _torch
from .._torch import DTensorSpec, OpSchema
from ..model.question import OutputMeta, metas_of
from . import fake_tensors, meta_tensors
from .classes import OpClass, class_of, means_for
from .closed_forms import DECLINED
from .known import forget

__all__ = ["OpClass", "class_of", "forget", "output_meta"]

# Outputs are row-major in every kernel, also the statistics with their dims of size 1.
_ROW_MAJOR = frozenset(
    (torch.ops.aten.native_layer_norm.default, torch.ops.aten.native_layer_norm_backward.default)
)


def output_meta(schema: OpSchema) -> OutputMeta:
    """The metadata of an op's outputs, as torch computes it.

    Raises:
        _core.Unsupported: an operand without metadata.
        Exception: what the op itself raises on such operands.
    """
    means = means_for(schema.op)
    if not (_torch.is_autocast_on() and means.autocast_matters):
        if means.closed_form is not None:
            meta = means.closed_form(schema.args_schema, schema.kwargs_schema)
            if meta is not DECLINED and not (
                _torch.python_chooses_kernels() and _has_size_one(schema, meta)
            ):
                return meta  # type: ignore[return-value]
        if means.on_meta_tensors:
            try:
                return meta_tensors.output_meta(schema)
            except Exception:  # declined, or refused: in torch's words, if it comes to that
                pass
    if _torch.may_be_symbolic():
        return _torch.torch_output_meta(schema)  # type: ignore[no-any-return]
    return fake_tensors.output_meta(schema, means.are_held)


def _has_size_one(schema: OpSchema, meta: Any) -> bool:
    """Is a size 1 among the operands' or outputs'? A kernel in Python may give such a dim another
    stride than the one in C++, which the closed forms follow."""
    operands = [
        spec.tensor_meta
        for spec in _torch.tree_leaves(schema.args_schema)
        if isinstance(spec, DTensorSpec)
    ]
    outputs = () if schema.op in _ROW_MAJOR else metas_of(meta)
    return any(each is not None and 1 in each.shape for each in (*operands, *outputs))
