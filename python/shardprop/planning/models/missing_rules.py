"""Rules for ops that models trace to, and that torch has none for.

Plans are often made on a machine without accelerators, where attention traces to the kernel of the
CPU. A write into a part of a tensor becomes a copy that returns what is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ..._torch import OpOverload, Partial, Placement, Replicate, Shard, TensorMeta
from ...propagation.route import route_of
from ...rules.registration import register_single_dim_rule

__all__ = ["register_missing_rules"]

_FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
_COPY = torch.ops.aten.copy.default

Rows = list[list[Placement]]


def register_missing_rules(ops: Iterable[OpOverload | None]) -> None:
    """Register the rules of those of the ops that nobody has registered one for."""
    met = {*ops}
    for op, rule in ((_FORWARD, _forward), (_BACKWARD, _backward), (_COPY, _copy)):
        if op in met and route_of(op).rule is None:
            register_single_dim_rule(op)(rule)


def _forward(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Rows:
    # output, logsumexp; query, key, value, mask
    return [[Shard(dim)] * 5 + _mask(dim, kwargs) for dim in _shards(args[:3])]


def _backward(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Rows:
    # Three gradients; grad, query, key, value, output, logsumexp, mask
    return [[Shard(dim)] * 9 + _mask(dim, kwargs) for dim in _shards(args[1:4])]


def _shards(operands: tuple[TensorMeta, ...]) -> list[int]:
    """The batch, and the heads unless several queries share one key."""
    heads = {operand.shape[1] for operand in operands}
    return [0, 1] if len(heads) == 1 else [0]


def _mask(dim: int, kwargs: dict[str, Any]) -> list[Placement]:
    mask = kwargs.get("attn_mask")
    if mask is None:
        return []
    own = len(mask.shape) == 4 and mask.shape[dim] > 1
    return [Shard(dim) if own else Replicate()]


def _copy(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Rows:
    # output; what is overwritten, what is copied, which is broadcast
    to, source = args[:2]
    rows: Rows = []
    for dim in range(len(to.shape)):
        own = dim - len(to.shape) + len(source.shape)
        is_cut = own >= 0 and source.shape[own] > 1
        rows.append([Shard(dim), Shard(dim), Shard(own) if is_cut else Replicate()])
    if to.dtype == source.dtype:  # converted one by one, parts of a sum need not add up to it
        rows.append([Partial("sum"), Replicate(), Partial("sum")])
    return rows
