"""What a cache holds, and how many bytes that takes, roughly."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from .. import _core

__all__ = ["CacheStats", "held_bytes"]

_CONTAINERS = (tuple, list, dict, set, frozenset)
_PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True)
class CacheStats:
    """What a cache holds.

    Attributes:
        entries: Values held.
        capacity: Values held at most.
        bytes: What they and their keys take, an estimate.
    """

    entries: int
    capacity: int
    bytes: int

    def __add__(self, other: CacheStats) -> CacheStats:
        return CacheStats(
            self.entries + other.entries,
            self.capacity + other.capacity,
            self.bytes + other.bytes,
        )


def held_bytes(roots: Iterable[object]) -> int:
    """Bytes of these objects and of what they hold, each object once.

    Looked into are containers and this package's own objects. What belongs to torch (an op, a
    mesh, a placement) counts with its own size only: it would lead to all of torch, and would
    be there without us.
    """
    waiting = list(roots)
    seen: set[int] = set()
    total = 0
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, type):
            continue
        seen.add(id(item))
        total += sys.getsizeof(item)
        if isinstance(item, _core.Region):
            total += item.nbytes
        if isinstance(item, _CONTAINERS) or _is_ours(item):
            waiting += gc.get_referents(item)
    return total


def _is_ours(item: object) -> bool:
    return type(item).__module__.partition(".")[0] == _PACKAGE
