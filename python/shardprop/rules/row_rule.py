"""Rules that list rows for one mesh dim and let the core search the mesh.

A row names a placement per output, then per operand; a shard is a placeholder, which any kind of
shard may fill. torch 2.13 offers these ops plain shards only, and offers them whatever the operands
have: `RowRule` fills the placeholders accordingly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .._torch import OpOverload, Partial, Placement, Replicate, Shard, ShardingPlaceholder
from ..errors import ShardpropError
from ..model.question import Choice, OutputMeta, Question
from .notation.rule_text import Notation
from .placeholder import Row
from .places import function_place, innermost, short_path
from .rule import Chooser, Origin, RowsRule, declining_the_unexpected, unexpected

__all__ = ["P", "R", "Row", "RowFunction", "RowRule", "S", "noted", "same_row"]

RowFunction = Callable[[OpOverload, tuple[Any, ...], dict[str, Any]], Sequence[Row]]

R = Replicate()
P = Partial
S = ShardingPlaceholder


def same_row(placement: Placement | ShardingPlaceholder, width: int) -> Row:
    """Every output and operand has the same placement."""
    return [placement] * width


def noted(text: str) -> RowFunction:
    """The rows of a rule in the notation; a call that does not fit it is declined."""
    notation = Notation(text)

    def rows(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Row]:
        try:
            return notation.rows(op, args, kwargs)
        except ShardpropError as error:
            raise unexpected(error) from error

    return rows


@dataclass(frozen=True)
class RowRule(RowsRule):
    """A rule of ours that lists rows.

    Attributes:
        rows: ``rows(op, args, kwargs)``, tensors as TensorMeta: the rows; the all-Replicate row,
            which torch always offers first, is put before them.
        outputs: Outputs per row.
        accepts: A filter over whole strategies, as torch 2.15 writes them.
        allow_unbacked_sharding: What torch assumes where an unbacked size may not be shardable.
    """

    rows: RowFunction
    outputs: int = 1
    accepts: Callable[..., bool] | None = None
    allow_unbacked_sharding: bool | None = None

    origin = Origin.SHARDPROP
    has_fixed_code = True

    def rows_of(
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], meta: OutputMeta
    ) -> list[Row]:
        """The rows with plain shards."""
        rows = self.rows(op, args, kwargs)
        return [[Shard(c.dim) if isinstance(c, S) else c for c in row] for row in rows]

    def choose(self, question: Question, chooser: Chooser) -> Choice:
        """See `Rule.choose`."""
        return declining_the_unexpected(chooser.choose, question, self)

    def place(self, op: OpOverload) -> str:
        """The function of the rule; its module and the notation where there is none."""
        inner = innermost(self.rows)
        if isinstance(inner, Notation):
            from .own import home_of  # which imports every family

            return f"{short_path(home_of(op))} {str(inner)!r}"
        return function_place(inner)
