"""Softmax and the negative log likelihood: ops that need one dim whole, and follow in the rest."""

from __future__ import annotations

import torch

from ... import _core
from ..._torch import DTensorSpec, Partial, Placement, is_shard
from ...model.question import Question
from ..follow_rule import (
    REPLICATE,
    Axes,
    Axis,
    Candidate,
    FollowRule,
    Placements,
    normal_dim,
    unary,
)
from ..uneven_shards import refuses_partial_avg
from .slicing import all_but, without

__all__ = ["RULES"]

aten = torch.ops.aten

# The values of the `reduction` argument.
_NONE, _MEAN = 0, 1
# The `ignore_index` of a call that does not name one.
_DEFAULT_IGNORED = -100


def _settled(axes: Axes) -> Axes:
    """The same, with every Partial reduced first."""
    return Axes(axes.dims, keeps_partial=False)


def _softmax(question: Question, spec: DTensorSpec) -> Axes:
    return _settled(all_but(normal_dim(question.args[1], spec.ndim), spec.ndim))


def _softmax_backward(question: Question) -> Candidate:
    """Gradient and output in the layout of the one with more shards."""
    grad, output, dim, _ = question.args
    example = grad if grad.num_shards >= output.num_shards else output
    axes = _settled(all_but(normal_dim(dim, grad.ndim), grad.ndim))
    wanted, _ = axes.follow_all(example.placements)
    return Candidate((wanted,), (wanted, wanted))


def _input_and_target(spec: DTensorSpec) -> tuple[Placements, Placements]:
    """The scores with whole classes, and the target, which has no dim for them."""
    channel = 1 if len(spec.shape) >= 2 else 0
    wanted, _ = _settled(all_but(channel, spec.ndim)).follow_all(spec.placements)
    _, target = without(channel, spec.ndim).follow_all(wanted)
    return wanted, target


def _replicated(spec: DTensorSpec) -> Placements:
    _, placements = Axes((Axis.WHOLE,) * spec.ndim, keeps_partial=False).follow_all(spec.placements)
    return placements


def _summed(target: Placements, reduced: Placement) -> Placements:
    return tuple(reduced if is_shard(p) else p for p in target)


def _nll_loss(question: Question) -> Candidate:
    scores, target, weight, reduction, ignored = question.args
    wanted, target_wanted = _input_and_target(scores)
    operands = [wanted, target_wanted]
    if weight is not None:
        operands.append(_replicated(weight))
    if reduction == _NONE:
        return Candidate((target_wanted, (REPLICATE,) * len(wanted)), tuple(operands))
    if reduction == _MEAN and refuses_partial_avg(target, range(target.ndim), target_wanted):
        raise _core.Unsupported("mean of a loss over uneven shards, which torch refuses")
    is_weighted = weight is not None or ignored != _DEFAULT_IGNORED
    if reduction == _MEAN and is_weighted and any(map(is_shard, target_wanted)):
        # Each rank would divide by the weight of its own targets. That also holds if some are
        # ignored by default, but what the targets are is not known, and mostly none is.
        whole = (REPLICATE,) * len(wanted)
        return Candidate((whole, whole), (whole,) * len(operands))
    kind = Partial("avg" if reduction == _MEAN else "sum")
    outputs = (_summed(target_wanted, kind), _summed(target_wanted, Partial("sum")))
    return Candidate(outputs, tuple(operands))


def _nll_loss_backward(question: Question) -> Candidate:
    grad, scores, _, weight, reduction, _, total_weight = question.args
    wanted, target_wanted = _input_and_target(scores)
    operands = [target_wanted if reduction == _NONE else _replicated(grad), wanted, target_wanted]
    if weight is not None:
        operands.append(_replicated(weight))
    # Only the mean divides by the total weight.
    operands.append(_replicated(total_weight) if reduction == _MEAN else total_weight.placements)
    return Candidate((wanted,), tuple(operands))


RULES = {
    **dict.fromkeys(
        (aten._softmax.default, aten._log_softmax.default, aten._safe_softmax.default),
        unary(_softmax),
    ),
    **dict.fromkeys(
        (aten._softmax_backward_data.default, aten._log_softmax_backward_data.default),
        FollowRule(_softmax_backward),
    ),
    **dict.fromkeys(
        (aten.nll_loss_forward.default, aten.nll_loss2d_forward.default), FollowRule(_nll_loss)
    ),
    **dict.fromkeys(
        (aten.nll_loss_backward.default, aten.nll_loss2d_backward.default),
        FollowRule(_nll_loss_backward),
    ),
}
