"""Our own rules by op, for what torch leaves to full-mesh strategies: one module per family."""

from __future__ import annotations

from .._torch import OpOverload
from .families import (
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
from .follow_rule import FollowRule
from .row_rule import RowRule

__all__ = ["home_of", "own_rule"]

_FAMILIES = (
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
    op: rule for family in _FAMILIES for op, rule in family.RULES.items()
}


def own_rule(op: OpOverload) -> FollowRule | RowRule | None:
    """Our rule for an op that torch decides by a full-mesh strategy of its own.

    It stands in for that strategy only: what a program registers in its place is asked instead.
    """
    return _RULES.get(op)


def home_of(op: OpOverload) -> str:
    """The file of the family that has a rule for an op."""
    return str(next(family for family in _FAMILIES if op in family.RULES).__file__)
