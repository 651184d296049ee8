"""Whether somebody looks on, for whom torch's own code has to run."""

from __future__ import annotations

import torch
from torch.autograd import forward_ad as _forward_ad
from torch.distributed.tensor import _redistribute

from . import redistribution
from .types import PLAIN_TENSORS

__all__ = ["is_own", "is_plain", "nobody_watches"]

_transforms = torch._C._functorch.peek_interpreter_stack
_profiles = torch._C._autograd._profiler_enabled


def nobody_watches() -> bool:
    """May a redistribution go another way than torch's code, since no dispatch mode (a tracer, a
    debugger, fake or simulated ranks), no transform of torch.func, no tangents, no profiler and no
    watcher of ours would see it, and no planner is named?"""
    return not (
        torch._C._len_torch_dispatch_stack()
        or _profiles()
        or _transforms() is not None
        or _forward_ad._current_level >= 0
        or redistribution.is_watched()
        or _redistribute._FORCE_MIN_COST_REDISTRIBUTION_PLAN is not None
        or _redistribute._DISABLE_REDISTRIBUTE_TRANSFORM_OPTIMIZATION
    )


def is_plain(local: torch.Tensor) -> bool:
    """Is it a tensor of torch's own, without a gradient of its own?"""
    return is_own(local) and not local.requires_grad


def is_own(local: torch.Tensor) -> bool:
    """Is it of a class of torch's own, which holds its elements itself?"""
    return type(local) in PLAIN_TENSORS
