"""Passes over a graph of local ops and collectives: each changes it in place.

Those of `PASSES` keep all bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import fx

from .buckets import small_collectives_at_once
from .equal_calls import equal_calls_once, equal_collectives_once
from .needless_copies import without_needless_copies
from .needless_views import without_needless_views
from .order import NO_TIME, Duration, Durations, collectives_early_waits_late
from .pending_sums import pending_sums_at_once
from .pieces import pieces_moved_at_once

__all__ = [
    "FEWER_COLLECTIVES",
    "NO_TIME",
    "PASSES",
    "ROUNDING_PASSES",
    "Duration",
    "Durations",
    "cleaned",
]

_Pass = Callable[[fx.Graph], None]

# In the order in which they run.
_ALL: Mapping[str, _Pass] = {
    "equal": equal_calls_once,
    "collectives": equal_collectives_once,
    "pieces": pieces_moved_at_once,
    "views": without_needless_views,
    "copies": without_needless_copies,
    "sums": pending_sums_at_once,
    "buckets": small_collectives_at_once,
}
_LAST = "order"
# These add in another order, or have ranks do so, and so may round otherwise.
ROUNDING_PASSES = ("sums", "buckets")
# After these a rank begins fewer collectives than DTensor.
FEWER_COLLECTIVES = ("collectives", "sums", "buckets")
PASSES = (*(name for name in _ALL if name not in ROUNDING_PASSES), _LAST)


def cleaned(graph: fx.Graph, passes: Sequence[str], durations: Durations | None = None) -> None:
    """Run these passes over a graph, in their own order.

    Args:
        graph: Changed in place.
        passes: Their names.
        durations: What calls take, if that is known; the same on every rank.
    """
    for name, run in _ALL.items():
        if name in passes:
            run(graph)
            graph.eliminate_dead_code()
    if _LAST in passes:
        collectives_early_waits_late(graph, durations)
    graph.lint()
