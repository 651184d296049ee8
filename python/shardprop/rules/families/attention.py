"""Scaled dot product attention: shard the heads (dim 1) or the batch (dim 0) of all alike."""

from __future__ import annotations

from typing import Any

import torch

from ... import _core
from ..._torch import OpOverload, TensorMeta
from ..row_rule import R, Row, RowRule, S

__all__ = ["RULES"]

aten = torch.ops.aten

_SHARDS = (R, S(1), S(0))


def _flash(_: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Row]:
    debug_mask = len(args) >= 6 and args[5]
    return [
        # output, logsumexp, four sequence lengths, rng state, unused, debug mask; query, key, value
        [x, x, None, None, None, None, R, None, x if debug_mask else R, x, x, x]
        for x in _SHARDS
    ]


def _flash_backward(_: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Row]:
    tensors = sum(isinstance(arg, TensorMeta) for arg in args)
    # Three gradients; grad, query, key, value, output, logsumexp; then the state, replicated.
    return [[x] * 9 + [R] * (tensors - 6) for x in _SHARDS]


def _efficient(_: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Row]:
    has_bias, has_logsumexp = args[3] is not None, args[4]
    return [
        # output, logsumexp, philox seed and offset; query, key, value, bias
        [x, x if has_logsumexp else R, None, None, *[x] * (3 + has_bias)]
        for x in _SHARDS
    ]


def _efficient_backward(_: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Row]:
    has_bias = args[4] is not None
    return [
        # gradients of query, key, value, bias; grad, query, key, value, bias, output, logsumexp;
        # philox seed and offset
        [x, x, x, x if has_bias else None, *[x] * (6 + has_bias), R, R]
        for x in _SHARDS
    ]


def _cudnn(_: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Row]:
    if args[3] is not None:
        raise _core.Unsupported("cuDNN attention with a bias, which torch has no strategy for")
    has_logsumexp, debug_mask = args[4], len(args) >= 8 and args[7]
    return [
        # output, logsumexp, four sequence lengths, philox seed and offset, debug mask
        [x, x if has_logsumexp else R, *[None] * 6, x if debug_mask else None, x, x, x]
        for x in _SHARDS
    ]


def _cudnn_backward(_: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Row]:
    has_bias = args[8] is not None
    # Three gradients; grad, query, key, value, output, logsumexp; philox seed and offset; bias
    return [[x] * 9 + [R, R] + [x] * has_bias for x in _SHARDS]


RULES = {
    aten._scaled_dot_product_flash_attention.default: RowRule(_flash, outputs=9),
    aten._scaled_dot_product_flash_attention_backward.default: RowRule(_flash_backward, outputs=3),
    aten._scaled_dot_product_efficient_attention.default: RowRule(_efficient, outputs=4),
    aten._scaled_dot_product_efficient_attention_backward.default: RowRule(
        _efficient_backward, outputs=4
    ),
    aten._scaled_dot_product_cudnn_attention.default: RowRule(_cudnn, outputs=9),
    aten._scaled_dot_product_cudnn_attention_backward.default: RowRule(_cudnn_backward, outputs=3),
}
