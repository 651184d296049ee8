"""Whether somebody looks on, for whom torch's own code has to run; and results put together."""

from __future__ import annotations

import torch
from torch.distributed.tensor import _redistribute

from . import redistribution
from .types import DTensor, DTensorSpec

__all__ = ["is_plain", "nobody_watches", "wrapped"]

_transforms = torch._C._functorch.peek_interpreter_stack
_profiles = torch._C._autograd._profiler_enabled
_PLAIN = frozenset([torch.Tensor, torch.nn.Parameter])


def nobody_watches() -> bool:
    """May a redistribution go another way than torch's code, since no dispatch mode (a tracer, a
    debugger, fake or simulated ranks), no transform of torch.func, no profiler and no watcher of
    ours would see it, and no planner is named?"""
    return not (
        torch._C._len_torch_dispatch_stack()
        or _profiles()
        or _transforms() is not None
        or redistribution.is_watched()
        or _redistribute._FORCE_MIN_COST_REDISTRIBUTION_PLAN is not None
        or _redistribute._DISABLE_REDISTRIBUTE_TRANSFORM_OPTIMIZATION
    )


def is_plain(local: torch.Tensor) -> bool:
    """Is it a tensor of torch's own, without a gradient of its own?"""
    return type(local) in _PLAIN and not local.requires_grad


def wrapped(local: torch.Tensor, spec: DTensorSpec, requires_grad: bool = False) -> DTensor:
    """What a rank holds, as a DTensor."""
    return DTensor(local, spec, requires_grad=requires_grad)  # type: ignore[no-untyped-call]
