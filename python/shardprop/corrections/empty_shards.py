"""Shards that leave some ranks nothing, on which an op raises or makes another dtype."""

from __future__ import annotations

from .correction import Correction

EMPTY_SHARDS = Correction(
    name="empty shard on which an op raises",
    where="ops that raise without elements, on shards that leave some ranks none; on CPUs "
    "`native_dropout`, whose mask has another dtype there",
    fault="lets the op raise on the ranks that hold nothing of an operand, while the others go on "
    "and wait for them in the next collective.",
    right="gathers that operand first. Where the op writes into it, or draws random numbers (which "
    "differ by rank on CPUs), it stays, and the call is refused on all ranks.",
    ends="a check of torch's, or rows that leave out such shards.",
)
