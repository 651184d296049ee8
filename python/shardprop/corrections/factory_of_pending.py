"""Factories that take over the layout of an operand, a Partial among it."""

from __future__ import annotations

import torch

from .._torch import OpSchema
from .correction import CallCorrection
from .operands import first, multiplies

aten = torch.ops.aten


def _concerns(schema: OpSchema) -> bool:
    return first(schema).is_sharded() and multiplies(schema)


FACTORY_OF_PENDING = CallCorrection(
    name="new tensor that takes over what is pending",
    ops=(aten.new_full.default, aten.new_ones.default),
    concerns=_concerns,
    fault="keeps a Partial that a sharded operand has beside the shard, so that what all ranks "
    "write is added up.",
    right="keeps the shards alone.",
    ends="torch 2.15, which lists rows of its own for these ops.",
)
