"""Ops that leave the layout alone, drop it, or take it over: copies, factories, comparisons."""

from __future__ import annotations

from typing import Any

import torch

from ... import _core
from ..._torch import DTensorSpec, Partial, is_shard
from ...errors import RefusedPlacementError
from ...model.placements import Placements
from ...model.question import Question
from ..follow_rule import REPLICATE, Axes, Axis, Candidate, FollowRule, unary
from ..pending_partials import stands_for_itself

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


def _room(question: Question) -> Candidate:
    """As the operand, if the program asks; torch's C++ operators, which say the memory format, fill
    it with a number at once: without the Partials that such a number would not stand for."""
    same = _same(question)
    if question.kwargs.get("memory_format") is None:
        return same
    (placements,) = same.operands
    return Candidate((_standing_for(2, question, placements),), (placements,))


def _new(question: Question) -> Candidate:
    """As the operand if the shape is the same, else replicated. What is yet to be written may even
    take over a Partial."""
    spec: DTensorSpec = question.args[0]
    placements, shape = spec.placements, question.args[1]
    if not isinstance(shape, list):
        raise _core.Unsupported("factory whose shape is no list")
    takes_over = spec.is_sharded() or question.op in _UNINITIALIZED
    if tuple(spec.shape) == tuple(shape) and takes_over:
        content = _content(question, placements)
        return Candidate((content,), (placements,), costs=(_FACTORY_BONUS,))
    return Candidate(((REPLICATE,) * len(placements),), (placements,), costs=(0.0,))


def _content(question: Question, placements: Placements) -> Placements:
    """Without the Partials that the number which every rank writes would not stand for."""
    if question.op is aten.new_ones.default:
        value = 1
    elif question.op is aten.new_full.default:
        value = question.args[2]
    else:
        return placements  # zeros, or nothing yet
    return _standing_for(value, question, placements)


def _standing_for(value: Any, question: Question, placements: Placements) -> Placements:
    """Placements under which a number that every rank writes is that number."""
    dtype = getattr(question.meta, "dtype", torch.float32)
    return tuple(
        REPLICATE if isinstance(p, Partial) and not stands_for_itself(p, dtype, value) else p
        for p in placements
    )


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
    """``eye(n, m, out=...)``: every rank writes all of it."""
    placements = question.kwargs["out"].placements
    for mesh_dim, placement in enumerate(placements):
        is_sum = isinstance(placement, Partial) and placement.reduce_op == "sum"
        if is_shard(placement) or is_sum:
            raise RefusedPlacementError(
                f"{question.op}: Expected an operand 'out' that the op can write where it is, got "
                f"{placement} on mesh dim {mesh_dim}: every rank writes the same, which together "
                "would be another tensor. An operand that is written into is not moved: "
                "redistribute it before the call, to Replicate() on that mesh dim."
            )
    return Candidate((placements,), ())


_UNINITIALIZED = (aten.new_empty.default, aten.new_empty_strided.default)

RULES = {
    **dict.fromkeys(
        (
            aten.alias.default,
            aten.contiguous.default,
            aten.detach.default,
            aten.detach_.default,
            aten.fill_.Scalar,  # a pending sum of equal parts stays one: torch's tests say so
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
    aten.empty_like.default: FollowRule(_room),
    aten.t.default: unary(_transpose),
    aten.equal.default: FollowRule(_compare),
    aten.is_same_size.default: FollowRule(_compare),
    aten.eye.m_out: FollowRule(_identity_out),
}
