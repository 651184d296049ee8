"""The backward of an embedding that divides by how often an index occurs.

It stands in for torch's own rule where that is asked for (`corrections/embedding_by_frequency.py`).
"""

from __future__ import annotations

from typing import Any

import torch

from ..._torch import OpOverload
from ..row_rule import P, R, Row, RowRule, S, same_row

__all__ = ["RULES"]

aten = torch.ops.aten


def _counting(_: OpOverload, args: tuple[Any, ...], __: dict[str, Any]) -> list[Row]:
    """Each rank has to count all indices."""
    return [same_row(R, 3), [S(1), S(len(args[0].shape) - 1), R], [P("sum"), P("sum"), R]]


RULES = {aten.embedding_dense_backward.default: RowRule(_counting)}
