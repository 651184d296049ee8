"""Kinds of placements, and those that occur among operands."""

from __future__ import annotations

from collections.abc import Sequence

from .._torch import DTensorSpec, Placement, Shard, StridedShard

__all__ = ["Placements", "shard_kinds"]

# One for each mesh dim.
Placements = tuple[Placement, ...]


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
