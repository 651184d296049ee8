"""torch's caches of decisions, plans and metadata."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .generations import forget_decisions
from .planner import forget_plans
from .propagation import propagator
from .types import FakeTensorMode


def clear_torch_caches() -> None:
    """Forget every decision, plan and output metadata that torch holds, as in a new process."""
    forget_decisions()
    propagator()._propagate_tensor_meta_cached.cache_clear()
    FakeTensorMode.cache_clear()
    forget_plans()


# Hits and misses of the cache in torch's C++ dispatcher, of this thread, since it was cleared.
decision_cache_stats: Callable[[], tuple[int, int]] = (
    torch._C._get_DTensor_sharding_propagator_cache_stats
)

# A decision takes a kilobyte there, more or less. Far more than one program asks for in turn, else
# it would decide each anew at every step.
MOST_DECISIONS = 32_768


def bound_decisions() -> None:
    """Forget torch's decisions once this thread holds very many. torch drops none, and a program
    of ever new sizes adds some at every step."""
    _, missed = decision_cache_stats()
    if missed >= MOST_DECISIONS:
        forget_decisions()
