"""Views of strided or repeated shards whose elements are no shards of the output."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from .._torch import OpSchema, Placement, TensorMeta, is_shard, is_strided
from ..metadata import output_meta
from ..model.local_shapes import runs_of_ranks
from ..model.placements import Placements
from ..rules.families.views import Declined, follow_view
from .correction import CallCorrection
from .operands import first, shards_dim

if TYPE_CHECKING:
    from numpy.typing import NDArray

    _Numbers: TypeAlias = NDArray[np.int64]

aten = torch.ops.aten

_OPS = (
    aten._unsafe_view.default,
    aten.reshape.default,
    aten.view.default,
    aten.view_copy.default,
)
# The elements of larger views are not compared.
_MOST_COMPARED = 1 << 24


def _concerns(schema: OpSchema) -> bool:
    """Are the elements of some rank's part of the output not those that it holds of the input?"""
    spec = first(schema)
    sizes = spec.mesh.shape
    if _is_even(spec.shape, spec.placements, sizes):
        return False
    try:
        layouts = follow_view(schema.op, schema.args_schema, schema.kwargs_schema, sizes)
    except Declined:  # as torch does
        return False
    meta = output_meta(schema)
    assert isinstance(meta, TensorMeta)
    whole = spec.shape, meta.shape
    inner = _inner_dims(whole, layouts)
    shapes = [shape[: len(shape) - inner] for shape in whole]
    if math.prod(shapes[0]) > _MOST_COMPARED:
        return False
    # By numpy: where torch traces, a tensor has no elements.
    numbers = np.arange(math.prod(shapes[0]))
    held = [
        _held(numbers.reshape(shape), layout, sizes)
        for shape, layout in zip(shapes, layouts, strict=True)
    ]
    return not all(np.array_equal(before, after) for before, after in zip(*held, strict=True))


def _is_even(shape: Sequence[Any], placements: Placements, mesh_sizes: Sequence[int]) -> bool:
    """Do plain shards alone cut the tensor, and several of one dim leave all ranks as much?

    Then a view is right, or torch refuses it, or it raises on all ranks alike. So it is of sizes
    that are expressions, which nothing is known of.
    """
    pieces: dict[int, list[int]] = {}
    for placement, ranks in zip(placements, mesh_sizes, strict=True):
        if is_strided(placement):
            return not all(isinstance(size, int) for size in shape)
        if is_shard(placement):
            pieces.setdefault(placement.dim, []).append(ranks)  # type: ignore[attr-defined]
    again = {dim: math.prod(ranks) for dim, ranks in pieces.items() if len(ranks) > 1}
    if not again or not all(isinstance(size, int) for size in shape):
        return True
    return all(shape[dim] % count == 0 for dim, count in again.items())


def _inner_dims(shapes: Sequence[Sequence[int]], layouts: Sequence[Placements]) -> int:
    """How many of the last dims the view leaves alone, and no mesh dim shards."""
    count = 0
    for sizes in zip(*(reversed(shape) for shape in shapes), strict=False):
        dims = [len(shape) - 1 - count for shape in shapes]
        cells = zip(layouts, dims, strict=True)
        if len({*sizes}) > 1 or any(shards_dim(p, dim) for layout, dim in cells for p in layout):
            break
        count += 1
    return count


def _held(
    whole: _Numbers, placements: Sequence[Placement], mesh_sizes: Sequence[int]
) -> Iterator[_Numbers]:
    """What each rank holds, flat; mesh dims cut from left to right."""
    if not mesh_sizes:
        yield whole.flatten()
        return
    (placement, *rest), (ranks, *sizes) = placements, mesh_sizes
    for piece in _pieces(whole, placement, ranks):
        yield from _held(piece, rest, sizes)


def _pieces(whole: _Numbers, placement: Placement, ranks: int) -> Iterator[_Numbers]:
    if not is_shard(placement):
        yield from [whole] * ranks
        return
    dim: int = placement.dim  # type: ignore[attr-defined]
    for runs in runs_of_ranks(whole.shape[dim], placement, ranks):
        parts = [slice(start, start + length) for start, length in runs]
        yield np.concatenate([whole[(slice(None),) * dim + (part,)] for part in parts], dim)


STRIDED_VIEW = CallCorrection(
    name="view of strided shards",
    ops=_OPS,
    concerns=_concerns,
    fault="takes what ranks hold of strided shards, or of a dim that several mesh dims shard, for "
    "shards of the output which have other elements: the values are in other places or, where "
    "sizes do not divide, the view raises on some ranks, and the others wait for them in the next "
    "collective.",
    right="is refused on all ranks: what is viewed is not moved.",
    ends="a check in torch that the runs of a strided shard are runs of the output.",
    refuses=True,
)
