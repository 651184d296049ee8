"""A list of tensors along a new dim."""

from __future__ import annotations

import functools

import torch

from ..._torch import DTensorSpec, Partial, Placement, Shard, StridedShard
from ...model.placements import Placements
from ...model.question import Question
from ..follow_rule import REPLICATE, Axes, Candidate, FollowRule, argument, normal_dim
from ..pending_partials import partials_pass_conversion

__all__ = ["RULES"]


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
    axes = Axes(axes.dims, keeps_partial=partials_pass_conversion(question))
    merged, out = axes.follow_all(merged)
    return Candidate((out,), (merged,) * len(specs))


RULES = {torch.ops.aten.stack.default: FollowRule(_stack)}
