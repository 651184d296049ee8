"""Whether the op, run on local tensors, does what following its decomposition has promised.

A decomposition is followed with the sizes of whole tensors, but what runs on a rank is the op
itself on its shards. So a row holds only if the op does there what DTensor would do: the
decomposition is traced for the shapes that the row gives to ranks, and compared call by call. Where
a number (the count of a mean, the argument of a factory) comes from a size that the row shards, the
two differ. torch does not check this: it lets ``mse_loss_backward`` divide by the number of local
elements.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..._torch import Partial, Placement, TensorMeta, is_shard
from ...model.local_shapes import shapes_held
from ...model.op_traits import traits_of
from ...rules.follow_rule import on_dim
from .by_rows import DimLayout
from .program import Call, Declined, Program

__all__ = ["runs_alike"]

# A tensor dim that is cut: how (a shard, as if of dim 0), and its size.
_Cut = tuple[Placement, int]
_CUTS_HELD = 1_024


def runs_alike(
    program: Program,
    layouts: Sequence[DimLayout | None],
    retrace: Callable[[Sequence[torch.Size]], Program],
    mesh_sizes: Sequence[int],
    rewritten: bool,
) -> bool:
    """Does the op on local tensors do what DTensor would do for the decomposition?

    Args:
        program: The decomposition for the global shapes.
        layouts: Per value of the program its layout on one mesh dim.
        retrace: The decomposition for contiguous operands of other shapes.
        mesh_sizes: Ranks per mesh dim; on any of them, and on several at once, the row may be used.
        rewritten: DTensor rewrites the op's own arguments where something is sharded, so that the
            retrace would not be what runs.
    """
    placements = [layout.placement for layout in layouts if layout is not None]
    if len(placements) != len(layouts):
        return False
    placed = list(zip(program.metas, placements, strict=True))
    if any(is_shard(p) and p.dim >= len(meta.shape) for meta, p in placed):  # type: ignore[attr-defined]
        return False  # a dim of another operand, which was tried on all of them
    if all(_cut(meta, p) is None for meta, p in placed[: program.operands]):
        return True
    if rewritten:
        return False
    cuts = (*dict.fromkeys(cut for cut in itertools.starmap(_cut, placed) if cut is not None),)
    averages = any(isinstance(p, Partial) and p.reduce_op == "avg" for p in placements)
    for held in _held_by_ranks(cuts, mesh_sizes):
        if averages and len(held) > 1:
            return False  # an average over ranks is that over elements if all ranks hold as many
        for sizes in held:
            local_sizes = dict(zip(cuts, sizes, strict=True))
            local = [_local(meta, p, local_sizes) for meta, p in placed]
            try:
                there = retrace(local[: program.operands])
            except Declined:
                return False
            if not _same(program, there, local):
                return False
    return True


def _cut(meta: TensorMeta, placement: Placement) -> _Cut | None:
    """How a tensor is cut; None where it is not, or has nothing to cut."""
    if not is_shard(placement):
        return None
    size = meta.shape[placement.dim]  # type: ignore[attr-defined]
    return (on_dim(placement, 0), size) if size > 1 else None


def _held_by_ranks(
    cuts: tuple[_Cut, ...], mesh_sizes: Sequence[int]
) -> Iterator[frozenset[tuple[int, ...]]]:
    """For each set of mesh dims that the cuts may be made on: what ranks hold of them."""
    dims = [size for size in mesh_sizes if size > 1]
    seen: set[tuple[int, ...]] = set()
    for count in range(1, len(dims) + 1):
        for ranks in itertools.combinations(dims, count):
            if ranks not in seen:
                seen.add(ranks)
                yield _held(cuts, ranks)


# Asked of every row of an op; the rows are cut in a few ways.
@functools.lru_cache(_CUTS_HELD)
def _held(cuts: tuple[_Cut, ...], mesh_sizes: tuple[int, ...]) -> frozenset[tuple[int, ...]]:
    layouts = [(placement,) * len(mesh_sizes) for placement, _ in cuts]
    held = shapes_held([(size,) for _, size in cuts], layouts, mesh_sizes)
    return frozenset(tuple(size for (size,) in shapes) for shapes in held)


def _local(meta: TensorMeta, placement: Placement, local_sizes: dict[_Cut, int]) -> torch.Size:
    """The shape of what a rank holds."""
    cut = _cut(meta, placement)
    if cut is None:
        return meta.shape
    shape = list(meta.shape)
    shape[placement.dim] = local_sizes[cut]  # type: ignore[attr-defined]
    return torch.Size(shape)


def _same(program: Program, there: Program, local: Sequence[torch.Size]) -> bool:
    if len(program.calls) != len(there.calls) or program.results != there.results:
        return False
    if not all(map(_same_call, program.calls, there.calls)):
        return False
    return all(
        meta.shape == shape and meta.dtype == here.dtype
        for meta, shape, here in zip(there.metas, local, program.metas, strict=True)
    )


def _same_call(here: Call, there: Call) -> bool:
    if here.op is not there.op or here.outputs != there.outputs:
        return False
    # Sizes that DTensor itself makes local; that they come out right shows in the outputs' shapes.
    local = set(traits_of(here.op).rewrites.positions)
    if len(here.args) != len(there.args):
        return False
    pairs = [
        pair for i, pair in enumerate(zip(here.args, there.args, strict=True)) if i not in local
    ]
    return all(_equal(a, b) for a, b in [*pairs, (here.kwargs, there.kwargs)])


def _equal(here: Any, there: Any) -> bool:
    return type(here) is type(there) and repr(here) == repr(there)
