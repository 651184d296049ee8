"""Gathers of uneven shards that torch merges on a flattened mesh."""

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
