"""What stands for any kind of shard in a rule's row, and what it asks of the tensor's size."""

from __future__ import annotations

from collections.abc import Sequence

from .. import _torch
from .._torch import Placement
from ..errors import ShardpropError

__all__ = ["Row", "ShardingPlaceholder"]


class ShardingPlaceholder(_torch.ShardingPlaceholder):
    """Any kind of sharding (``Shard``, ``_StridedShard``) of one tensor dim, in a row of a rule.

    The core fills it with the kinds that occur among the operands, and takes the row only where
    what the placeholder asks of the tensor holds on every rank.

    Args:
        dim: The tensor dim, 0 or more.
        even: Every rank has equally many elements of this dim.
        min_local: Every rank has at least so many elements of this dim. Without it a rank may have
            none: chunks are rounded up, so that of 4 elements on 3 ranks the last gets nothing.
        multiple_of: Every rank has a multiple of so many elements of this dim.

    Raises:
        ShardpropError: a dim that is no int or is negative, a number below 1.
    """

    def __init__(
        self, dim: int, *, even: bool = False, min_local: int | None = None, multiple_of: int = 1
    ) -> None:
        if isinstance(dim, bool) or not isinstance(dim, int) or dim < 0:
            raise ShardpropError(
                f"ShardingPlaceholder: Expected a tensor dim of 0 or more, got {dim!r}."
            )
        for name, number in (
            ("min_local", 1 if min_local is None else min_local),
            ("multiple_of", multiple_of),
        ):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise ShardpropError(
                    f"ShardingPlaceholder({dim}): Expected {name} of 1 or more, got {number!r}."
                )
        super().__init__(dim)
        self.even = even
        self.min_local = min_local or 0
        self.multiple_of = multiple_of

    @property
    def is_constrained(self) -> bool:
        """Does it ask anything of the tensor's size?"""
        return self.even or self.min_local > 0 or self.multiple_of > 1

    def __repr__(self) -> str:
        asked = [str(self.dim)]
        if self.even:
            asked.append("even=True")
        if self.min_local:
            asked.append(f"min_local={self.min_local}")
        if self.multiple_of > 1:
            asked.append(f"multiple_of={self.multiple_of}")
        return f"ShardingPlaceholder({', '.join(asked)})"


# On one mesh dim: per output and operand a placement, a placeholder, or None for what is no tensor.
Row = Sequence[Placement | _torch.ShardingPlaceholder | None]
