"""Moves of strided shards that stand for no shard order."""

from __future__ import annotations

from .correction import Correction

STRIDED_OUT_OF_ORDER = Correction(
    name="strided shards out of order",
    where="redistributions",
    fault="plans mesh dim by mesh dim where a strided shard stands for no shard order, as if it "
    "cut nothing: another cut of the same tensor dim is gathered with a wrong size, or stays where "
    "it is while what it is nested in changes.",
    right="undoes the cuts from the last one, and makes those of the target from the first.",
    ends="a planner of torch's that knows the order of strided cuts.",
)
