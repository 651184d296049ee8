"""Decompositions that read sizes: what runs on a rank reads the sizes of its shards."""

from __future__ import annotations

from .correction import Correction

LOCAL_SIZES = Correction(
    name="decomposition that reads sizes",
    where="ops that torch decides by their decomposition",
    fault="follows the decomposition with the sizes of the whole tensors, but each rank runs the "
    "op itself on its shards: a number that comes from a size (the count of a mean, in its "
    "gradient too) is another there. The gradients of mean losses are too large by the number of "
    "ranks; means over uneven shards weigh ranks, not elements.",
    right="drops the rows on which what a rank runs differs from what was followed: the operands "
    "are gathered.",
    ends="rules of torch's own for the ops, or a check of this kind in torch.",
)
