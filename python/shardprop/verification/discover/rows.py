"""Rows as plain text cells, and which rows say nothing that another row does not say."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from ... import _torch

__all__ = [
    "ABSENT",
    "Row",
    "cell_of",
    "cuts",
    "essential",
    "implies",
    "placement_of",
    "reduce_op",
    "shard_dim",
    "show",
]

# A cell for every slot of the op, operands first: "R", "S(0)", "P(sum)", or ABSENT.
Row = tuple[str, ...]

# The cell of a tensor that the call does not have. An output that is None has "-".
ABSENT = ""

# A rank that has the value itself has an average, a maximum and a minimum of equal values as well.
_FREE = frozenset({"P(avg)", "P(max)", "P(min)"})
_SHARD = re.compile(r"S\((\d+)\)")
_PARTIAL = re.compile(r"P\((\w+)\)")

# Which of several outputs of the same inputs is kept: the first in this order.
_PREFERRED = ("R", "S", "P(sum)", "P(avg)", "P(max)", "P(min)", "P(product)")


def cell_of(placement: object) -> str | None:
    """A placement or a placeholder as a cell; None for what a rule's text has no word for."""
    if placement is None:
        return "-"
    if isinstance(placement, _torch.StridedShard):
        return None
    if isinstance(placement, (_torch.ShardingPlaceholder, _torch.Shard)):
        return f"S({placement.dim})"
    if isinstance(placement, _torch.Replicate):
        return "R"
    if type(placement) is _torch.Partial:
        return f"P({placement.reduce_op})"
    return None


def placement_of(cell: str) -> _torch.Placement | None:
    """The placement that a cell stands for; None for an output that is absent."""
    dim, op = shard_dim(cell), reduce_op(cell)
    if dim is not None:
        return _torch.Shard(dim)
    if op is not None:
        return _torch.Partial(op)
    return _torch.Replicate() if cell == "R" else None


def shard_dim(cell: str) -> int | None:
    """The tensor dim that a cell cuts."""
    found = _SHARD.fullmatch(cell)
    return int(found[1]) if found else None


def cuts(row: Row) -> bool:
    """Does the row cut a tensor?"""
    return any(shard_dim(cell) is not None for cell in row)


def reduce_op(cell: str) -> str | None:
    """The reduce op that a cell waits for."""
    found = _PARTIAL.fullmatch(cell)
    return found[1] if found else None


def show(row: Row, operands: int) -> str:
    """A row as the notation writes it: ``"S(0), R -> S(0)"``."""
    left = ", ".join(cell for cell in row[:operands] if cell != ABSENT)
    right = ", ".join(cell for cell in row[operands:] if cell != ABSENT)
    return f"{left} -> {right}".strip()


def implies(strong: Row, weak: Row, operands: int) -> bool:
    """Does `weak` hold wherever `strong` does, nothing being moved or computed?

    A replicated operand is an average (a maximum, a minimum) of equal values already, and so is a
    replicated output.
    """
    return all(
        s == w or (s in _FREE and w == "R" if at < operands else s == "R" and w in _FREE)
        for at, (s, w) in enumerate(zip(strong, weak, strict=True))
    )


def essential(rows: Iterable[Row], operands: int) -> frozenset[Row]:
    """The rows without those that others imply, and one output for each choice of inputs."""
    best: dict[Row, Row] = {}
    for row in rows:
        held = best.get(row[:operands])
        if held is None or _rank(row[operands:]) < _rank(held[operands:]):
            best[row[:operands]] = row
    kept = list(best.values())
    return frozenset(row for row in kept if not _implied_by_other(row, kept, operands))


def _implied_by_other(row: Row, rows: Collection[Row], operands: int) -> bool:
    if "R" not in row[:operands]:
        return False
    return any(row != other and implies(other, row, operands) for other in rows)


def _rank(outputs: Row) -> tuple[int, ...]:
    words = ("S" if shard_dim(cell) is not None else cell for cell in outputs)
    return tuple(_PREFERRED.index(w) if w in _PREFERRED else len(_PREFERRED) for w in words)
