"""The progress of a solve: one line on stderr, or a caller's own function."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .errors import fault
from .solution import relative_gap

__all__ = ["OnProgress", "shown"]

# seconds, iteration, lower bound, best objective so far (inf: none)
OnProgress = Callable[[float, int, float, float], None]


@contextmanager
def shown(progress: bool | OnProgress) -> Iterator[OnProgress | None]:
    """What a solver is to call while the block runs; None if nobody wants to know."""
    if not isinstance(progress, bool):
        if not callable(progress):
            raise fault("solve, progress", "True, False or a function", repr(progress))
        yield progress
        return
    if not progress:
        yield None
        return
    from rich.console import Console  # 50 ms that only those who look at it pay

    with Console(stderr=True).status("solving") as status:

        def show(seconds: float, iteration: int, lower_bound: float, objective: float) -> None:
            status.update(line(seconds, iteration, lower_bound, objective))

        yield show


def line(seconds: float, iteration: int, lower_bound: float, objective: float) -> str:
    """How far a solve is."""
    best = f"best {objective:.6g}" if objective < math.inf else "no labels yet"
    gap = relative_gap(objective, lower_bound) if objective < math.inf else math.inf
    shown_gap = f"gap {gap:.2e}" if gap < math.inf else "no gap yet"
    bound = f"bound {lower_bound:.6g}"
    return f"solving: {seconds:.1f} s, iteration {iteration}, {bound}, {best}, {shown_gap}"
