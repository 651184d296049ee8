"""Which strategies run on what ranks hold, beside real ops on real shards."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard
from torch.utils._pytree import tree_leaves

from shardprop import graph
from shardprop._torch import OpOverload, TensorMeta
from shardprop.model.placements import Placements
from shardprop.planning.models.trials import Trials
from shardprop.planning.strategies import Strategy, strategies

from ...specs import P, R, S

MeshOf = Callable[..., DeviceMesh]

aten = torch.ops.aten
OP_OUTPUTS = "shape of the output"


class Call(NamedTuple):
    """An op on whole tensors; `OP_OUTPUTS` stands for the local shape of its output."""

    op: OpOverload
    args: tuple[Any, ...]
    local_args: tuple[Any, ...]


X = torch.zeros(6, 8)
HEADS = torch.zeros(4, 1, 6, 8)
CALLS = {
    "mm": Call(aten.mm.default, (X, torch.zeros(8, 5)), (0, 1)),
    "sum": Call(aten.sum.dim_IntList, (X, [1]), (0, [1])),
    "view": Call(aten.view.default, (X, [6, 2, 4]), (0, OP_OUTPUTS)),
    "flatten": Call(aten.view.default, (HEADS, [24, 8]), (0, OP_OUTPUTS)),
    "expand": Call(aten.expand.default, (HEADS, [4, 3, 6, 8]), (0, OP_OUTPUTS)),
    "slice": Call(aten.slice.Tensor, (X, 0, 1, 5), (0, 0, 1, 5)),
    "cat": Call(aten.cat.default, ([X, X], 1), ([0, 1], 1)),
    "softmax": Call(aten._softmax.default, (X, 1, False), (0, 1, False)),
    "roll": Call(aten.roll.default, (X, [2], [0]), (0, [2], [0])),
    "pixels": Call(aten.pixel_shuffle.default, (torch.zeros(2, 4, 6, 6), 2), (0, 2)),
}


def parts(tensor: torch.Tensor, layout: Placements, sizes: Sequence[int]) -> list[torch.Tensor]:
    """What each rank holds, cut as ``torch.chunk`` cuts."""
    found = []
    for rank in itertools.product(*map(range, sizes)):
        part = tensor
        for coordinate, ranks, placement in zip(rank, sizes, layout, strict=True):
            if isinstance(placement, Shard):
                chunks = part.chunk(ranks, placement.dim)
                empty = part.narrow(placement.dim, 0, 0)
                part = chunks[coordinate] if coordinate < len(chunks) else empty
        found.append(part)
    return found


def runs(call: Call, strategy: Strategy, sizes: Sequence[int]) -> bool:
    """Do real ranks get what the strategy says?"""
    tensors = tensors_of(call.args)
    made = call.op(*call.args)
    operands = [parts(x, p, sizes) for x, p in zip(tensors, strategy.operands, strict=True)]
    (layout,) = strategy.outputs
    assert layout is not None
    for *held, planned in zip(*operands, parts(made, layout, sizes), strict=True):
        rest = iter(held)

        def local(item: Any, whole: Any) -> Any:
            if isinstance(whole, torch.Tensor):
                return next(rest)  # noqa: B023 - called at once
            if isinstance(whole, (list, tuple)) and any(
                isinstance(each, torch.Tensor) for each in whole
            ):
                return [local(None, each) for each in whole]
            return [*planned.shape] if item == OP_OUTPUTS else item  # noqa: B023 - called at once

        args = [*map(local, call.local_args, call.args)]
        try:
            result = call.op(*args)
        except RuntimeError:
            return False
        if result.shape != planned.shape:
            return False
    return True


def tensors_of(item: Any) -> list[torch.Tensor]:
    return [x for x in tree_leaves(item) if isinstance(x, torch.Tensor)]


def metas(item: Any) -> Any:
    if isinstance(item, torch.Tensor):
        return TensorMeta(item.shape, item.stride(), item.dtype)
    return [*map(metas, item)] if isinstance(item, list) else item


@pytest.mark.parametrize("sizes", [(2,), (3,), (4,), (2, 2)], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_verdicts_are_those_of_real_ranks(
    name: str, sizes: tuple[int, ...], mesh_of: MeshOf
) -> None:
    call, mesh = CALLS[name], mesh_of(*sizes)
    args = tuple(map(metas, call.args))
    layouts: list[Placements] = [*itertools.product((R, P, S(0), S(1)), repeat=len(sizes))]
    sources = [layouts] * len(tensors_of(call.args))
    found = strategies(call.op, args, {}, mesh=mesh, sources=sources, strided=False)
    verdicts = Trials(mesh).run(call.op, args, {}, found)
    if (name, sizes) == ("view", (2, 2)):
        assert not verdicts.all()  # two on four ranks
    assert verdicts.tolist() == [runs(call, each, sizes) for each in found]


class GroupedHeads(nn.Module):
    """Each head of the keys serves two of the queries, as in attention with grouped queries."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        keys = self.keys(x).view(4, 8, 2, 8)
        return keys[:, :, :, None].expand(4, 8, 2, 2, 8).reshape(4, 8, 4, 8)


def test_strategies_that_do_not_run_are_counted_and_no_plan_has_one(mesh_of: MeshOf) -> None:
    mesh, model = mesh_of(2, 2), GroupedHeads()
    captured = graph.capture(model, (torch.ones(4, 8, 16),), mesh, topology="h100-nvlink")
    assert captured.cannot_run == {"aten.view.default": 2}  # two heads on four ranks, twice
    for candidates, node in zip(captured.labelled.candidates, captured.program.nodes, strict=True):
        assert len(candidates), node.name
    captured.solve().compile(model)
