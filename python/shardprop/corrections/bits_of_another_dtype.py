"""``view.dtype`` of what is pending, or sharded along the dim that changes its size."""

from __future__ import annotations

import torch

from .._torch import OpSchema
from .correction import CallCorrection
from .operands import argument, dtype_of, first, pending, shards_of

_BITWISE = ("band", "bor", "bxor")


def _concerns(schema: OpSchema) -> bool:
    spec, to = first(schema), argument(schema, 1)
    source = dtype_of(spec)
    if source == to or not isinstance(to, torch.dtype):
        return False
    if any(not _adds_up(reduce_op, source, to) for _, reduce_op in pending(schema)):
        return True
    return source.itemsize != to.itemsize and bool(shards_of(spec, spec.ndim - 1))


def _adds_up(reduce_op: str, source: torch.dtype, to: torch.dtype) -> bool:
    """Are the parts, read otherwise, reduced to the whole, read otherwise?"""
    pair = {source, to}
    if any(d.is_floating_point or d.is_complex for d in pair):
        # Real and imaginary parts are added one by one.
        components = any(d.is_complex and pair == {d, d.to_real()} for d in pair)
        return components and reduce_op in ("sum", "avg")
    return reduce_op in _BITWISE


BITS_OF_ANOTHER_DTYPE = CallCorrection(
    name="bits of another dtype",
    ops=(torch.ops.aten.view.dtype,),
    concerns=_concerns,
    fault="leaves the layout alone: parts are added before or after their bits are read otherwise, "
    "and uneven shards of a dim that changes its size are others.",
    right="reduces, or gathers, first.",
    ends="rows of torch's own that look at dtypes; those of 2.15 do not.",
    in_rows=(torch.ops.aten.view.dtype,),
)
