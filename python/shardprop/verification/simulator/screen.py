"""A first look at which Partials local tensors may be: all of them at once, for it is cheap."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch

from ..._torch import Partial
from .compare import largest, tolerance

__all__ = ["plausible"]


def plausible(
    whole: torch.Tensor, local: Sequence[torch.Tensor], partials: Sequence[Partial]
) -> list[Partial]:
    """Those of the Partials that may hold; the others surely do not."""
    dtype = whole.dtype
    ops = [partial.reduce_op for partial in partials]
    is_float = dtype.is_floating_point and dtype.itemsize >= 4
    if not is_float or not set(ops) <= _REDUCE.keys() or any(x.dtype != dtype for x in local):
        return list(partials)
    stacked = torch.stack(list(local))
    reduced = torch.stack([_REDUCE[op](stacked) for op in ops])
    off = (reduced - whole).abs().reshape(len(ops), -1).amax(1).tolist() if whole.numel() else []
    allowed = tolerance(dtype, max(largest(stacked), largest(whole)))
    # What is not finite is for a closer look.
    return [p for p, most in zip(partials, off, strict=False) if not allowed < most < float("inf")]


_REDUCE = {
    "sum": functools.partial(torch.sum, dim=0),
    "avg": functools.partial(torch.mean, dim=0),
    "product": functools.partial(torch.prod, dim=0),
    "max": functools.partial(torch.amax, dim=0),
    "min": functools.partial(torch.amin, dim=0),
}
