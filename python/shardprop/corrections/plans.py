"""Plans of torch's that move wrong data."""

from __future__ import annotations

from .correction import Correction

UNEVEN_FLATTENED_GATHER = Correction(
    name="uneven gather on a flattened mesh",
    where="redistributions",
    fault="merges the gathers of a tensor dim that several mesh dims cut into one on their "
    "flattened mesh, which cuts a size that does not divide otherwise: `full_tensor` returns data "
    "of other places.",
    right="gathers mesh dim by mesh dim where the pieces differ, and of strided shards, for which "
    "the merged gather raises.",
    ends="a check of the sizes in torch, as it has for reduce-scatters.",
)

STRIDED_OUT_OF_ORDER = Correction(
    name="strided shards out of order",
    where="redistributions",
    fault="plans mesh dim by mesh dim where a strided shard stands for no shard order, as if it "
    "cut nothing: another cut of the same tensor dim is gathered with a wrong size, or stays where "
    "it is while what it is nested in changes.",
    right="undoes the cuts from the last one, and makes those of the target from the first.",
    ends="a planner of torch's that knows the order of strided cuts.",
)
