"""A hundred decisions, of the core and of torch, compared: under a torch that is not known."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import torch

from .. import _torch
from .._torch import (
    OpOverload,
    OpSchema,
    OutputSharding,
    Partial,
    Replicate,
    Shard,
)
from ..errors import ShardpropError
from ..rules import torch_registry
from .answer import output_placements, wanted_specs

__all__ = ["check_decisions"]

aten = torch.ops.aten

_SHAPES = (2, 2), (4,)
_PLACEMENTS = (Replicate(), Shard(0), Shard(1), Partial())
_ROWS, _COLUMNS = (16, 32), (32, 8)
# Ops with the shapes of their operands, and what else they take.
_CALLS: Sequence[tuple[OpOverload, Sequence[tuple[int, ...]], tuple[object, ...]]] = (
    (aten.mm.default, (_ROWS, _COLUMNS), ()),
    (aten.add.Tensor, (_ROWS, _ROWS), ()),
    (aten.mul.Tensor, (_ROWS, _ROWS), ()),
    (aten.relu.default, (_ROWS,), ()),
    (aten.sum.dim_IntList, (_ROWS,), ([1],)),
    (aten._softmax.default, (_ROWS,), (1, False)),
    (aten.t.default, (_ROWS,), ()),
    (aten.view.default, (_ROWS,), ([512],)),
)

_DECIDED_AT_LEAST = 100

_Decide = Callable[[OpSchema], OutputSharding]


def check_decisions(decide: _Decide) -> None:
    """Compare what the core decides, without corrections, with what torch does.

    Args:
        decide: Asks the core.

    Raises:
        ShardpropError: a decision differs; says which.
    """
    decided = 0
    for schema in _schemas():
        ours, theirs = (_told(each, schema) for each in (decide, _torch.torch_propagate))
        if ours != theirs:
            raise ShardpropError(
                f"Expected torch {torch.__version__}, which is not known, to decide as shardprop, "
                f"got for {schema}: {theirs}, and {ours} of shardprop. Use a torch that is known, "
                "or a newer shardprop."
            )
        decided += "->" in theirs
    if decided < _DECIDED_AT_LEAST:
        raise ShardpropError(
            f"Expected torch {torch.__version__}, which is not known, to decide ops, got "
            f"{decided} of {_DECIDED_AT_LEAST} decisions. Use a torch that is known, or a newer "
            "shardprop."
        )


def _told(decide: _Decide, schema: OpSchema) -> str:
    """A decision in words, or how it is refused."""
    try:
        answer = decide(schema)
    except Exception as error:
        return type(error).__name__
    wanted = [spec.placements for spec in wanted_specs(schema, answer)]
    return f"{wanted} -> {output_placements(answer)}"


def _schemas() -> Iterator[OpSchema]:
    """For each op and mesh some layouts, the same in each process."""
    for shape in _SHAPES:
        ranks = torch.arange(torch.Size(shape).numel()).view(shape)
        mesh = _torch.mesh_without_groups(ranks)
        layouts = [*itertools.product(_PLACEMENTS, repeat=len(shape))]
        for op, operands, more in _CALLS:
            chosen = itertools.product(layouts, repeat=len(operands))
            for placements in itertools.islice(chosen, 0, None, 5 ** len(shape) // 4 or 1):
                specs = [
                    _torch.make_spec(mesh, each, _torch.contiguous_meta(size, torch.float32))
                    for each, size in zip(placements, operands, strict=True)
                ]
                yield torch_registry.op_schema(op, (*specs, *more), {})
