"""The first of equal elements, among those of several ranks."""

from __future__ import annotations

import math

from .._torch import DTensorSpec, is_shard
from .correction import Correction

__all__ = ["FIRST_OF_EQUALS", "may_be_another"]


def may_be_another(spec: DTensorSpec, dim: int | None = None) -> bool:
    """Are the ranks, as torch's handler goes through them, in another order than what they hold?

    Args:
        spec: Of what is reduced.
        dim: The dim that is; None: all.
    """
    shards = [p.dim for p in spec.placements if is_shard(p)]  # type: ignore[attr-defined]
    if dim is not None:
        return shards.count(dim % spec.ndim) > 1
    return len(shards) > 1 or any(math.prod(spec.shape[:d]) > 1 for d in shards)


FIRST_OF_EQUALS = Correction(
    name="first of equals on several ranks",
    where="`argmax` and `argmin` of all elements, or of a dim that several mesh dims shard",
    fault="takes the first rank that has the extreme, not the rank that has the first of equal "
    "elements, whose index the op is to give.",
    right="gathers the operand first.",
    ends="a handler of torch's that compares indices where values are equal.",
)
