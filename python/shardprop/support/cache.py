"""A bounded map that forgets what was not used for long, and what all caches hold, in bytes too."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Generic, Protocol, TypeVar

from .. import _core

__all__ = ["BoundedMap", "CacheStats", "clear_maps", "held_bytes", "list_in_stats", "stats_of_maps"]

V = TypeVar("V")

# The estimate of bytes looks at so many entries, and takes the others to be like them.
_SAMPLED = 16

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


class _Entry(Generic[V]):
    __slots__ = ("used", "value")

    def __init__(self, value: V) -> None:
        self.value = value
        self.used = False


class BoundedMap(Generic[V]):
    """At most `capacity` entries; safe to use from several threads, of which no reader waits.

    When it is full, the oldest entry goes that was not read since it was last passed over.

    `name` says what is held, in `stats_of_maps`.
    """

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self._capacity = capacity
        # Reentrant: a signal handler may ask for a decision while this thread is writing.
        self._writing = threading.RLock()
        self._entries: dict[Hashable, _Entry[V]] = {}
        list_in_stats(self)

    def get(self, key: Hashable) -> V | None:
        """The value under `key`, which then counts as used."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        entry.used = True
        return entry.value

    def put(self, key: Hashable, value: V) -> None:
        """Hold `value`; what was not used for long makes room."""
        with self._writing:
            if key not in self._entries:
                self._make_room()
            self._entries[key] = _Entry(value)

    def _make_room(self) -> None:
        while len(self._entries) >= self._capacity:
            oldest = next(iter(self._entries))
            entry = self._entries.pop(oldest, None)
            if entry is not None and entry.used:
                entry.used = False
                self._entries[oldest] = entry

    def clear(self) -> None:
        """Forget all."""
        with self._writing:
            self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)

    def stats(self) -> CacheStats:
        """What is held now. To look at the sampled entries takes milliseconds."""
        with self._writing:
            entries = len(self._entries)
            sample = [(key, entry.value) for key, entry in islice(self._entries.items(), _SAMPLED)]
        bytes_held = held_bytes(sample) * entries // len(sample) if sample else 0
        return CacheStats(entries, self._capacity, bytes_held)


class Cache(Protocol):
    """What can be listed: a bounded map, or anything else that knows what it holds."""

    @property
    def name(self) -> str:
        """Says what is held; those of one name are listed together."""

    def stats(self) -> CacheStats:
        """What is held now."""

    def clear(self) -> None:
        """Forget all."""


# Caches outlive nothing: one that its owner dropped is no longer listed.
_caches: weakref.WeakSet[Cache] = weakref.WeakSet()
_registration = threading.RLock()


def list_in_stats(cache: Cache) -> None:
    """List a cache in `stats_of_maps` as long as it lives."""
    with _registration:
        _caches.add(cache)


def clear_maps() -> None:
    """Empty every listed cache, those of planners that nobody else knows of, too."""
    with _registration:
        caches = [*_caches]
    for held in caches:
        held.clear()


def stats_of_maps() -> dict[str, CacheStats]:
    """What each listed cache of this process holds, by name; those of one name together."""
    with _registration:
        caches = sorted(_caches, key=lambda held: held.name)
    found: dict[str, CacheStats] = {}
    for held in caches:
        found[held.name] = found.get(held.name, CacheStats(0, 0, 0)) + held.stats()
    return found


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
