"""Ops that join a list of tensors: cat and stack."""

from __future__ import annotations

import functools

import torch

from ..._torch import DTensorSpec, Partial, Placement, Shard, StridedShard
from ...model.placements import Placements
from ...model.question import Question
from ...model.specs import alike
from ..follow_rule import REPLICATE, Axes, Candidate, FollowRule, argument, normal_dim
from .pending import passes_conversion
from .slicing import all_but

__all__ = ["RULES"]

aten = torch.ops.aten


def _partials_pass(question: Question) -> bool:
    """Do pending reductions pass the conversion to the dtype of the output?"""
    to = getattr(question.meta, "dtype", None)
    return to is None or all(
        passes_conversion(p.reduce_op, spec.tensor_meta.dtype, to)
        for spec in question.args[0]
        for p in spec.placements
        if isinstance(p, Partial)
    )


def _cat(question: Question) -> list[Candidate]:
    """Every tensor may set the example for the others, but the joined dim must be whole."""
    specs: list[DTensorSpec] = question.args[0]
    ndim = specs[0].ndim
    axes = all_but(normal_dim(argument(question, 1, 0), ndim), max(spec.ndim for spec in specs))
    axes = Axes(axes.dims, keeps_partial=_partials_pass(question))
    distinct = dict(zip(alike(specs), specs, strict=True)).values()
    examples = dict.fromkeys(axes.follow_all(spec.placements)[0] for spec in distinct)
    return [Candidate((wanted,), (wanted,) * len(specs)) for wanted in examples]


def _merge(current: Placement, new: Placement) -> Placement:
    """One placement for two tensors: a shard before a Partial before Replicate; two that do not
    agree are replicated."""
    if current is new or current == new:
        return current
    ranks = [
        2 if isinstance(p, (Shard, StridedShard)) else int(isinstance(p, Partial))
        for p in (current, new)
    ]
    if ranks[0] == ranks[1]:
        return REPLICATE if ranks[0] else new
    return current if ranks[0] > ranks[1] else new


def _stack(question: Question) -> Candidate:
    specs: list[DTensorSpec] = question.args[0]
    dim = normal_dim(argument(question, 1, 0), specs[0].ndim + 1)
    merged: Placements = tuple(
        functools.reduce(_merge, column)
        for column in zip(*(spec.placements for spec in specs), strict=True)
    )
    axes = Axes(tuple(d + (d >= dim) for d in range(specs[0].ndim)))
    axes = Axes(axes.dims, keeps_partial=_partials_pass(question))
    merged, out = axes.follow_all(merged)
    return Candidate((out,), (merged,) * len(specs))


RULES = {
    aten.cat.default: FollowRule(_cat),
    aten.stack.default: FollowRule(_stack),
}
