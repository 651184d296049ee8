"""What a call really allocates on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.profiler import ProfilerActivity, profile

__all__ = ["allocated"]


def allocated(call: Callable[[], Any]) -> tuple[Any, int]:
    """What a call returns, and the most bytes that it had allocated at once."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        made = call()
    events = profiled.profiler.kineto_results.events()
    changes = [(each.start_ns(), each.nbytes()) for each in events if each.name() == "[memory]"]
    now = most = 0
    for _, change in sorted(changes, key=lambda each: each[0]):
        now += change
        most = max(most, now)
    return made, most
