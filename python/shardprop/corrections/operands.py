"""What predicates ask of a call's operands."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .._torch import (
    DTensorSpec,
    OpSchema,
    Partial,
    Placement,
    ShardingPlaceholder,
    is_shard,
)

__all__ = [
    "MULTIPLYING",
    "argument",
    "dtype_of",
    "first",
    "is_pending",
    "multiplies",
    "operands",
    "pending",
    "shards_dim",
    "shards_of",
]


def operands(schema: OpSchema) -> Iterator[DTensorSpec]:
    """The specs among the arguments, those in lists too."""
    for item in (*schema.args_schema, *schema.kwargs_schema.values()):
        for each in item if isinstance(item, (list, tuple)) else (item,):
            if isinstance(each, DTensorSpec):
                yield each


def first(schema: OpSchema) -> DTensorSpec:
    """The first operand."""
    return next(operands(schema))


def argument(schema: OpSchema, position: int, default: object = None) -> object:
    """A positional argument, or its default."""
    args = schema.args_schema
    return args[position] if len(args) > position else default


def dtype_of(spec: DTensorSpec) -> torch.dtype:
    """The dtype of an operand; torch's default where it is not told."""
    return torch.get_default_dtype() if spec.tensor_meta is None else spec.tensor_meta.dtype


def pending(schema: OpSchema) -> Iterator[tuple[DTensorSpec, str]]:
    """Each Partial of each operand, by its reduction."""
    for spec in operands(schema):
        for placement in spec.placements:
            if isinstance(placement, Partial):
                yield spec, placement.reduce_op


def is_pending(schema: OpSchema, *reduce_ops: str) -> bool:
    """Has an operand a Partial of one of these reductions?"""
    return any(reduce_op in reduce_ops for _, reduce_op in pending(schema))


# Reductions of which a number that all ranks write is another number.
MULTIPLYING = frozenset(("sum", "product", "bxor"))


def multiplies(schema: OpSchema) -> bool:
    """Has an operand such a Partial? Of flags a sum or a product is what all of them are."""
    return any(
        reduce_op in MULTIPLYING and (reduce_op == "bxor" or dtype_of(spec) is not torch.bool)
        for spec, reduce_op in pending(schema)
    )


def shards_of(spec: DTensorSpec, dim: int) -> list[Placement]:
    """The shards of a tensor dim, strided ones among them."""
    return [p for p in spec.placements if is_shard(p) and p.dim == dim]  # type: ignore[attr-defined]


def shards_dim(cell: object, dim: int) -> bool:
    """Does a cell of a rule's row shard this tensor dim?"""
    is_sharding = isinstance(cell, ShardingPlaceholder) or (
        isinstance(cell, Placement) and is_shard(cell)
    )
    return is_sharding and cell.dim == dim  # type: ignore[attr-defined]
