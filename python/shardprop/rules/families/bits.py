"""``view.dtype``: the same bits as elements of another kind."""

from __future__ import annotations

import torch

from ... import _core
from ..._torch import DTensorSpec, Partial, StridedShard, is_shard
from ...model.question import Question
from ..follow_rule import REPLICATE, Candidate, FollowRule
from ..uneven_shards import is_even

__all__ = ["RULES"]

_BITWISE = frozenset(("band", "bor", "bxor"))


def _view_dtype(question: Question) -> Candidate:
    """The layout stays, save for Partials that are not reduced bit by bit, and for shards of the
    last dim that are cut elsewhere once it is longer or shorter."""
    spec, to = question.args
    if len(question.operands) != 1 or spec.tensor_meta is None:
        raise _core.Unsupported("several tensors where torch takes one")
    source = spec.tensor_meta.dtype
    is_cut = source.itemsize != to.itemsize and not _is_cut_alike(spec, source, to)
    wanted = tuple(
        REPLICATE
        if (isinstance(p, Partial) and not _passes(p.reduce_op, source, to))
        or (is_cut and is_shard(p) and p.dim == spec.ndim - 1)
        else p
        for p in spec.placements
    )
    return Candidate((wanted,), (wanted,))


def _passes(reduce_op: str, source: torch.dtype, to: torch.dtype) -> bool:
    """Do the parts, read as `to`, reduce to the whole read as `to`?"""
    if source == to:
        return True
    if _is_floating(source) or _is_floating(to):
        # Real and imaginary parts are added one by one.
        pair = {source, to}
        components = any(d.is_complex and pair == {d, d.to_real()} for d in pair)
        return components and reduce_op in ("sum", "avg")
    if reduce_op in _BITWISE:
        return True
    if source is torch.bool:
        return reduce_op != "sum"  # of bools it is a logical or
    # Integers of one width are added and multiplied alike, with a sign or without.
    return source.itemsize == to.itemsize and reduce_op in ("sum", "product")


def _is_floating(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def _is_cut_alike(spec: DTensorSpec, source: torch.dtype, to: torch.dtype) -> bool:
    """Are shards of the last dim those of the output's? Where they have no whole number of new
    elements, plain ones make the op raise, as torch has it."""
    last = spec.ndim - 1
    cuts = [p for p in spec.placements if is_shard(p) and p.dim == last]  # type: ignore[attr-defined]
    if not cuts:
        return True
    if source.itemsize > to.itemsize:
        return is_even(spec, last)
    is_plain = not any(isinstance(p, StridedShard) for p in cuts)
    return is_plain or is_even(spec, last, to.itemsize // source.itemsize)


RULES = {torch.ops.aten.view.dtype: FollowRule(_view_dtype)}
