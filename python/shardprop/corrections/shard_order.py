"""Operands in a shard order of their own, which torch's decisions do not see."""

from __future__ import annotations

from .._torch import OpSchema, OutputSharding
from .correction import Correction


def _spares(schema: OpSchema, answer: OutputSharding) -> bool:
    """torch's decision is right once all tensors are put in one order."""
    return True


SHARD_ORDER = Correction(
    name="operand in another shard order",
    where="all ops, on a tensor dim that several mesh dims cut in another order than from left to "
    "right",
    fault="compares placements alone: an operand that is in those which are decided stays in the "
    "shard order it has, and passes for one in the default order.",
    right="puts operands in one shard order: that of what the op writes into, views or makes "
    "another like, or else the default one. Where the op writes into several tensors that have no "
    "order in common, it is refused.",
    ends="a comparison of shard orders in torch's decisions.",
    spares=_spares,
)
