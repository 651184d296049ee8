"""Our own rules by op, for what torch leaves to full-mesh strategies, and for rows of its own that
are wrong: one module per family."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

from .._torch import OpOverload
from .families import (
    attention,
    bits,
    concatenation,
    indexing,
    layouts,
    losses,
    matmul,
    ordering,
    pooling,
    reductions,
    slicing,
    stacking,
    views,
)
from .follow_rule import FollowRule
from .row_rule import RowRule

__all__ = ["FAMILIES", "Family", "home_of", "own_rule"]


class Family(NamedTuple):
    """Rules of one kind.

    Attributes:
        module: Where they are.
        until: The version of torch that has single-dim rules of its own for all of them: the
            family goes when older ones are no longer supported.
    """

    module: ModuleType
    until: str | None = None


FAMILIES = (
    Family(stacking),
    Family(views),
    Family(attention, until="2.15"),
    Family(bits, until="2.15"),
    Family(concatenation, until="2.15"),
    Family(indexing, until="2.15"),
    Family(layouts, until="2.15"),
    Family(losses, until="2.15"),
    Family(matmul, until="2.15"),
    Family(ordering, until="2.15"),
    Family(pooling, until="2.15"),
    Family(reductions, until="2.15"),
    Family(slicing, until="2.15"),
)

_RULES: dict[OpOverload, FollowRule | RowRule] = {
    op: rule for family in FAMILIES for op, rule in family.module.RULES.items()
}


def own_rule(op: OpOverload) -> FollowRule | RowRule | None:
    """Our rule for an op that torch decides by a full-mesh strategy of its own, or by rows with a
    fault.

    It stands in for these only: what a program registers in their place is asked instead.
    """
    return _RULES.get(op)


def home_of(op: OpOverload) -> str:
    """The file of the family that has a rule for an op."""
    return str(next(module for module, _ in FAMILIES if op in module.RULES).__file__)
