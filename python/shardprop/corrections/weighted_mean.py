"""The mean of a loss whose targets weigh differently."""

from __future__ import annotations

import torch

from .._torch import DTensorSpec, OpSchema
from .correction import CallCorrection
from .operands import argument, shards_of

aten = torch.ops.aten

# The value of the `reduction` argument, and the `ignore_index` of a call that does not name one.
_MEAN, _DEFAULT_IGNORED = 1, -100


def _concerns(schema: OpSchema) -> bool:
    scores, weight = argument(schema, 0), argument(schema, 2)
    if argument(schema, 3, _MEAN) != _MEAN or not isinstance(scores, DTensorSpec):
        return False
    if weight is None and argument(schema, 4, _DEFAULT_IGNORED) == _DEFAULT_IGNORED:
        return False
    classes = 1 if scores.ndim >= 2 else 0
    return any(shards_of(scores, dim) for dim in range(scores.ndim) if dim != classes)


WEIGHTED_MEAN = CallCorrection(
    name="weighted mean of a loss",
    ops=(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default),
    concerns=_concerns,
    fault="averages the means of the ranks, each over the weights of its own targets, or over "
    "those that are not ignored.",
    right="gathers where the call has weights or names the class to ignore. Targets equal to the "
    "default of -100 make torch's mean wrong as well, and ours: a fault that depends on values, "
    "and a remedy that every training would pay for.",
    ends="torch 2.15, which lists rows of its own for these ops.",
)
