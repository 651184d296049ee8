"""Our own rules, one module per family of ops, for what torch leaves to full-mesh strategies."""

from __future__ import annotations

from .. import registry
from .._torch import OpOverload
from . import (
    attention,
    bits,
    indexing,
    joining,
    layouts,
    losses,
    matmul,
    ordering,
    pooling,
    reductions,
    slicing,
    views,
)
from .follow import FollowRule
from .rows import RowRule

__all__ = ["FollowRule", "RowRule", "own_rule"]

FAMILIES = (
    attention,
    bits,
    indexing,
    joining,
    layouts,
    losses,
    matmul,
    ordering,
    pooling,
    reductions,
    slicing,
    views,
)
_RULES: dict[OpOverload, FollowRule | RowRule] = {
    op: rule for family in FAMILIES for op, rule in family.RULES.items()
}


def own_rule(op: OpOverload) -> FollowRule | RowRule | None:
    """Our rule for an op that torch decides by a full-mesh strategy of its own.

    None where there is no such rule of ours, or where the program has registered another strategy
    in the place of torch's.
    """
    return _RULES.get(op) if registry.has_own_full_mesh_strategy(op) else None
