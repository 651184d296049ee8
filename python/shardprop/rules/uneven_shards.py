"""What an op may not do on uneven shards: leave Partial(avg) pending."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .._torch import DTensorSpec, Placement, StridedShard, is_shard

__all__ = ["is_even", "refuses_partial_avg"]


def refuses_partial_avg(
    spec: DTensorSpec, dims: Iterable[int], placements: Sequence[Placement] | None = None
) -> bool:
    """Is Partial(avg) refused as the result of a mean over shards, since these are uneven?

    Partial(avg) is reduced by adding up what the ranks hold and dividing by how many ranks there
    are, so the result of each rank weighs the same. A mean weighs each element the same. The two
    agree only if every rank holds equally many of the elements that the op averages.

    Who asks decides what happens instead: `families/reductions.py` gathers the dims of a mean
    first; `families/losses.py` declines a mean loss, which torch refuses.

    Two places refuse Partial(avg) on uneven shards without asking here: the text of a rule
    (`csrc/core/notation/notation_rows.cpp`) allows the average over even shards only, and
    `propagation/decomposition/local_run.py` (`runs_alike`) drops a row of a decomposition that
    shards an operand and has a Partial(avg), unless all ranks hold equally many elements.

    Args:
        spec: The operand whose elements are averaged.
        dims: The tensor dims that are averaged over.
        placements: Where the operand will be; None: where it is.
    """
    return not all(is_even(spec, dim, placements=placements) for dim in dims)


def is_even(
    spec: DTensorSpec, dim: int, unit: int = 1, placements: Sequence[Placement] | None = None
) -> bool:
    """Do all ranks hold as many units of `unit` elements of a dim?

    With `placements` the answer is for the tensor placed there; None: where it is.
    """
    size: Any = spec.shape[dim]
    shards = 1
    for mesh_dim, placement in enumerate(spec.placements if placements is None else placements):
        if is_shard(placement) and placement.dim == dim:  # type: ignore[attr-defined]
            shards *= spec.mesh.size(mesh_dim)
            if not isinstance(placement, StridedShard):
                continue
            if size % (placement.split_factor * shards * unit) != 0:
                return False
    return bool(size % (shards * unit) == 0)
