"""What a call really allocates on a CPU."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from torch.profiler import ProfilerActivity, profile

__all__ = ["allocated"]


def allocated(call: Callable[[], Any], *, inside_ops: bool = True) -> tuple[Any, int]:
    """What a call returns, and the most bytes that it had allocated at once.

    Args:
        call: On this thread alone.
        inside_ops: Count what an op frees before it returns, too. Convolutions reorder their
            operands for the processor they run on, so what they take depends on the machine.
    """
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        made = call()
    events = profiled.profiler.kineto_results.events()
    changes = [(each.start_ns(), each.nbytes()) for each in events if each.name() == "[memory]"]
    if not inside_ops:
        changes = _at_the_end_of_ops(changes, _ops(events))
    now = most = 0
    for _, change in sorted(changes, key=lambda each: each[0]):
        now += change
        most = max(most, now)
    return made, most


def _ops(events: list[Any]) -> list[tuple[int, int]]:
    """Begin and end of each op that no other op called, in order."""
    spans = sorted(
        (each.start_ns(), each.start_ns() + each.duration_ns())
        for each in events
        if each.name().startswith("aten::")
    )
    outer: list[tuple[int, int]] = []
    for begin, end in spans:
        if not outer or begin > outer[-1][1]:
            outer.append((begin, end))
    return outer


def _at_the_end_of_ops(
    changes: list[tuple[int, int]], ops: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """What each op has allocated when it is done, all of it at once."""
    begins = [begin for begin, _ in ops]
    moved: dict[int, int] = {}
    for at, change in changes:
        op = bisect_right(begins, at) - 1
        if op >= 0 and at <= ops[op][1]:
            at = ops[op][1]
        moved[at] = moved.get(at, 0) + change
    return list(moved.items())
