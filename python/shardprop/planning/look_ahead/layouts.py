"""Every layout of a tensor, and values by these."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..._torch import DeviceMesh, Partial, Placement, Replicate, Shard, TensorMeta, is_partial
from ...model.placements import Placements

__all__ = ["Prices", "layouts", "too_many", "values_at"]

Prices = NDArray[np.float64]

_SUM = Partial("sum")
_KINDS_HELD = 64
# Layouts of one tensor that are priced at once: those of four dims on a mesh of four.
_MOST = 4096


@functools.lru_cache(_KINDS_HELD)
def layouts(mesh_ndim: int, tensor_ndim: int) -> list[Placements]:
    """Every layout of whole tensors, pending sums and averages, and plain shards."""
    kinds: list[Placement] = [Replicate(), _SUM, Partial("avg"), *map(Shard, range(tensor_ndim))]
    return [*itertools.product(kinds, repeat=mesh_ndim)]


def too_many(mesh_ndim: int, tensor_ndim: int) -> bool:
    """Are there more layouts than can be priced at once?"""
    return int((3 + tensor_ndim) ** mesh_ndim) > _MOST


@functools.lru_cache(_KINDS_HELD)
def _places(mesh_ndim: int, tensor_ndim: int) -> dict[Placements, int]:
    return {layout: at for at, layout in enumerate(layouts(mesh_ndim, tensor_ndim))}


def values_at(
    values: Prices, mesh: DeviceMesh, meta: TensorMeta, asked: Sequence[Placements]
) -> Prices:
    """The values of some layouts; of one that is none of `layouts`, the dearest there is.

    Args:
        values: Of each of `layouts`.
        mesh: The mesh.
        meta: Of the whole tensor.
        asked: The layouts.
    """
    places = _places(mesh.ndim, len(meta.shape))
    found = [places.get(tuple(map(_plain, layout))) for layout in asked]
    finite = values[np.isfinite(values)]
    dearest = finite.max() if finite.size else 0.0
    return np.array([dearest if at is None else values[at] for at in found])


def _plain(placement: Placement) -> Placement:
    """What it costs like: masks and norms that are pending like a sum."""
    return placement if type(placement) is Partial or not is_partial(placement) else _SUM
