"""Kinds of placements, and those that occur among operands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ._torch import DTensorSpec, Partial, Placement, Replicate, Shard, StridedShard

__all__ = ["has_strided", "is_partial", "is_shard", "is_strided", "shard_kinds"]

# isinstance says the same as these do, but its "no" takes Python a third of a microsecond.
_NOT_SHARDS = frozenset((Replicate, Partial))
_NOT_STRIDED = frozenset((Replicate, Partial, Shard))
_NOT_PARTIAL = frozenset((Replicate, Shard, StridedShard))


def is_shard(placement: Placement) -> bool:
    """A shard, plain or strided."""
    return type(placement) not in _NOT_SHARDS and isinstance(placement, (Shard, StridedShard))


def is_strided(placement: Placement) -> bool:
    """A strided shard."""
    return type(placement) not in _NOT_STRIDED and isinstance(placement, StridedShard)


def is_partial(placement: Placement) -> bool:
    """A Partial of any kind."""
    return type(placement) not in _NOT_PARTIAL and isinstance(placement, Partial)


def has_strided(placements: Iterable[Placement]) -> bool:
    """Is there a strided shard among the placements?"""
    for placement in placements:
        if type(placement) not in _NOT_STRIDED and isinstance(placement, StridedShard):
            return True
    return False


def shard_kinds(specs: Sequence[DTensorSpec]) -> list[int]:
    """Kinds of sharding seen, 0 for Shard and else a split factor, in the order of torch's set."""
    unique: set[Placement] = set()
    for spec in specs:
        unique.update(spec.placements)
    kinds: list[int] = []
    for placement in unique:
        if isinstance(placement, StridedShard):
            kind = int(placement.split_factor)
        elif isinstance(placement, Shard):
            kind = 0
        else:
            continue
        if kind not in kinds:
            kinds.append(kind)
    return kinds
