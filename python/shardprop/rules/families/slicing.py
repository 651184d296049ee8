"""Ops that take a part of one tensor dim or put it back: slice, select, split, unbind."""

from __future__ import annotations

from typing import Any

import torch

from ... import _core, _torch
from ..._torch import DTensorSpec
from ...model.question import Question
from ..follow_rule import Axes, Axis, Candidate, FollowRule, argument, normal_dim, unary

__all__ = ["RULES"]

aten = torch.ops.aten


def all_but(dim: int, ndim: int) -> Axes:
    """Every dim stays where it is, and `dim` must be whole."""
    return Axes(tuple(Axis.WHOLE if d == dim else d for d in range(ndim)))


def without(dim: int, ndim: int) -> Axes:
    """`dim` must be whole and is gone in the output."""
    return Axes(tuple(Axis.WHOLE if d == dim else d - (d > dim) for d in range(ndim)))


def _slice(question: Question, spec: DTensorSpec) -> Axes:
    dim = argument(question, 1, 0)
    size = spec.shape[dim]
    start, end, step = (argument(question, i, d) for i, d in ((2, None), (3, None), (4, 1)))
    if _takes_all(size, start, end, step):
        return Axes(tuple(range(spec.ndim)))
    return all_but(normal_dim(dim, spec.ndim), spec.ndim)


def _takes_all(size: int, start: Any, end: Any, step: Any) -> bool:
    """Is the slice the whole dim? Symbolic sizes only where that is known without a guard."""
    known = _torch.statically_known_true
    first = 0 if start is None else start
    last = size if end is None or known(end > size) else end
    if not all(isinstance(bound, _torch.IntLike) for bound in (first, last, step)):
        raise _core.Unsupported("slice bounds that are no integers")
    first = first if first >= 0 else first + size
    last = last if last >= 0 else last + size
    return known(first == 0) and known(last == size) and known(step == 1)


def _slice_backward(question: Question, spec: DTensorSpec) -> Axes:
    # torch compares with the dim as given, of which a negative one matches no shard.
    return all_but(normal_dim(question.args[2], spec.ndim), spec.ndim)


def _select(question: Question, spec: DTensorSpec) -> Axes:
    _, dim, _ = question.args
    return without(normal_dim(dim, spec.ndim), spec.ndim)


def _select_backward(question: Question, spec: DTensorSpec) -> Axes:
    # torch takes the dim as given, of which a negative one lies before every shard.
    dim = normal_dim(question.args[2], spec.ndim + 1)
    return Axes(tuple(d + (d >= dim) for d in range(spec.ndim)))


def _split_dim(question: Question) -> int:
    return normal_dim(argument(question, 2, 0), question.args[0].ndim)


def _split(question: Question, spec: DTensorSpec) -> Axes:
    return all_but(_split_dim(question), spec.ndim)


def _pieces(question: Question) -> int:
    sizes = question.args[1]
    if not isinstance(sizes, _torch.IntLike):
        return len(sizes)
    size = question.args[0].shape[_split_dim(question)]
    if not sizes > 0:
        raise _core.Unsupported("split into pieces of no size")
    return int(size // sizes) + bool(size % sizes != 0)


def _unbind_dim(question: Question) -> int:
    return normal_dim(argument(question, 1, 0), question.args[0].ndim)


def _unbind(question: Question) -> Candidate:
    spec: DTensorSpec = question.args[0]
    dim = _unbind_dim(question)
    wanted, out = without(dim, spec.ndim).follow_all(spec.placements)
    if wanted != spec.placements:
        raise _core.Unsupported("unbind of a sharded dim, which torch refuses")
    return Candidate((out,) * int(spec.shape[dim]), (spec.placements,), is_sequence=True)


def _slice_scatter(question: Question) -> Candidate:
    spec: DTensorSpec = question.args[0]
    dim = normal_dim(argument(question, 2, 0), spec.ndim)
    axes = Axes(all_but(dim, spec.ndim).dims, keeps_partial=False)
    wanted, _ = axes.follow_all(spec.placements)
    return Candidate((wanted,), (wanted, wanted))


RULES = {
    aten.slice.Tensor: unary(_slice),
    aten.slice_backward.default: unary(_slice_backward),
    aten.select.int: unary(_select),
    aten.select_backward.default: unary(_select_backward),
    **dict.fromkeys(
        (aten.split.Tensor, aten.split_with_sizes.default, aten.split_with_sizes_copy.default),
        unary(_split, outputs=_pieces),
    ),
    aten.unbind.int: FollowRule(_unbind),
    aten.slice_scatter.default: FollowRule(_slice_scatter),
}
