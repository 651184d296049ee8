"""Ops that leave the layout alone, drop it, or take it over: copies, factories, comparisons."""

from __future__ import annotations

import torch

from .. import _core
from .._torch import DTensorSpec, Partial
from ..engine import Question
from .follow import REPLICATE, Axes, Axis, Candidate, FollowRule, Placements, unary

__all__ = ["RULES"]

aten = torch.ops.aten
prims = torch.ops.prims

# What a factory gains, in torch's prices, by taking over its operand's layout.
_FACTORY_BONUS = -0.1


def _same(question: Question) -> Candidate:
    placements = question.args[0].placements
    if len(question.operands) != 1:
        raise _core.Unsupported("several tensors where torch takes one")
    return Candidate((placements,), (placements,))


def _without_partials(placements: Placements) -> Placements:
    return tuple(REPLICATE if isinstance(p, Partial) else p for p in placements)


def _like(question: Question) -> Candidate:
    """The content is new, so nothing is pending in it."""
    placements = question.args[0].placements
    return Candidate((_without_partials(placements),), (placements,))


def _new(question: Question) -> Candidate:
    """As the operand if the shape is the same, else replicated. What is yet to be written may even
    take over a Partial."""
    spec: DTensorSpec = question.args[0]
    placements, shape = spec.placements, question.args[1]
    if not isinstance(shape, list):
        raise _core.Unsupported("factory whose shape is no list")
    takes_over = spec.is_sharded() or question.op in _UNINITIALIZED
    if tuple(spec.shape) == tuple(shape) and takes_over:
        return Candidate((placements,), (placements,), costs=(_FACTORY_BONUS,))
    return Candidate(((REPLICATE,) * len(placements),), (placements,), costs=(0.0,))


def _transpose(_: Question, spec: DTensorSpec) -> Axes:
    return Axes((1, 0) if spec.ndim == 2 else tuple(range(spec.ndim)))


def _whole(_: Question, spec: DTensorSpec) -> Axes:
    return Axes((Axis.WHOLE,) * spec.ndim, keeps_partial=False)


def _compare(question: Question) -> Candidate:
    """Both operands in the layout of the one with more shards."""
    first, second = question.args
    if first.ndim == 0 or second.ndim == 0:
        wanted: Placements = (REPLICATE,) * first.mesh.ndim
    else:
        wanted = (first if first.num_shards >= second.num_shards else second).placements
        wanted = _without_partials(wanted)
    return Candidate((wanted,), (wanted, wanted))


def _identity_out(question: Question) -> Candidate:
    """``eye(n, m, out=...)``: the layout of the tensor that it writes."""
    return Candidate((question.kwargs["out"].placements,), ())


_UNINITIALIZED = (aten.new_empty.default, aten.new_empty_strided.default)

RULES = {
    **dict.fromkeys(
        (
            aten.alias.default,
            aten.contiguous.default,
            aten.detach.default,
            aten.detach_.default,
            aten.empty_like.default,
            aten.fill_.Scalar,
            aten.view.dtype,
            aten.zero_.default,
            prims.view_of.default,
        ),
        FollowRule(_same),
    ),
    **dict.fromkeys(
        (
            aten.full_like.default,
            aten.ones_like.default,
            aten.rand_like.default,
            aten.randint_like.default,
            aten.randint_like.low_dtype,
            aten.randint_like.low_dtype_out,
            aten.randn_like.default,
            aten.zeros_like.default,
        ),
        FollowRule(_like),
    ),
    **dict.fromkeys(
        (*_UNINITIALIZED, aten.new_full.default, aten.new_ones.default, aten.new_zeros.default),
        FollowRule(_new),
    ),
    **dict.fromkeys(
        (
            aten._linalg_eigh.default,
            aten._linalg_svd.default,
            aten.diag.default,
            aten.diag_embed.default,
            aten.diagonal.default,
            aten.diagonal_copy.default,
            aten.linalg_qr.default,
            aten.tril.default,
            aten.triu.default,
        ),
        unary(_whole),
    ),
    aten.t.default: unary(_transpose),
    aten.equal.default: FollowRule(_compare),
    aten.is_same_size.default: FollowRule(_compare),
    aten.eye.m_out: FollowRule(_identity_out),
}
