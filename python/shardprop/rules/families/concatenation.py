"""A list of tensors along a dim that they have."""

from __future__ import annotations

import torch

from ..._torch import DTensorSpec
from ...model.question import Question
from ...model.specs import alike
from ..follow_rule import Axes, Candidate, FollowRule, argument, normal_dim
from ..pending_partials import partials_pass_conversion
from .slicing import all_but

__all__ = ["RULES"]


def _cat(question: Question) -> list[Candidate]:
    """Every tensor may set the example for the others, but the joined dim must be whole."""
    specs: list[DTensorSpec] = question.args[0]
    ndim = specs[0].ndim
    axes = all_but(normal_dim(argument(question, 1, 0), ndim), max(spec.ndim for spec in specs))
    axes = Axes(axes.dims, keeps_partial=partials_pass_conversion(question))
    distinct = dict(zip(alike(specs), specs, strict=True)).values()
    examples = dict.fromkeys(axes.follow_all(spec.placements)[0] for spec in distinct)
    return [Candidate((wanted,), (wanted,) * len(specs)) for wanted in examples]


RULES = {torch.ops.aten.cat.default: FollowRule(_cat)}
