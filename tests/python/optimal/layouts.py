"""Layouts to plan between: all of them, and random ones."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry
from torch.distributed.tensor._ops._math_ops import _NormPartial
from torch.distributed.tensor.placement_types import _MaskPartial, _StridedShard

from shardprop.cost.cost_model import CostModel
from shardprop.model.plan_steps import Layout

from ..specs import spec_of
from .models import random_model
from .moves import Problem
from .state import State, left_to_right, state_of

__all__ = [
    "Question",
    "all_layouts",
    "random_layout",
    "random_question",
    "random_shape",
    "random_sizes",
    "spec_of_encoded_layout",
    "spec_of_layout",
]

# The partials that one layout may have; norms beside others are reduced first.
_FAMILIES = (
    *(tuple(map(Partial, ops)) for ops in (["sum"], ["sum"], ["avg"], ["sum", "avg"])),
    *(tuple(map(Partial, ops)) for ops in (["max"], ["min"], ["product"])),
    (_NormPartial(2),),
    (_NormPartial(2), _NormPartial(3), Partial("sum")),
)


def all_layouts(
    mesh_ndim: int,
    tensor_ndim: int,
    ops: Sequence[str] = ("sum",),
    *,
    every_order: bool = False,
) -> Iterator[Layout]:
    """All placements with plain shards and partials of `ops`, in the default order or in each."""
    values: list[Placement] = [Replicate(), *map(Partial, ops), *map(Shard, range(tensor_ndim))]
    for placements in itertools.product(values, repeat=mesh_ndim):
        layout = left_to_right(placements)
        if not every_order:
            yield layout
            continue
        dims = [dim for dim, _ in layout.shard_order]
        ways = (itertools.permutations(order) for _, order in layout.shard_order)
        for orders in itertools.product(*ways):
            yield Layout(placements, tuple(zip(dims, orders, strict=True)))


def random_layout(
    rng: random.Random,
    mesh_ndim: int,
    tensor_ndim: int,
    *,
    strided: float = 0.0,
    special: float = 0.0,
) -> Layout:
    """Shards in random order and partials that may be mixed.

    Args:
        strided: The share of layouts with strided shards; these are in the default order.
        special: The share with a masked partial.
    """
    family = rng.choice(_FAMILIES)
    shard = rng.choice((0.3, 0.5, 0.8)) if tensor_ndim else 0.0
    partial = rng.choice((0.0, 0.1, 0.4))
    placements: list[Placement] = []
    for _ in range(mesh_ndim):
        luck = rng.random()
        if luck < shard:
            placements.append(Shard(rng.randrange(tensor_ndim)))
        elif luck < shard + partial:
            placements.append(rng.choice(family))
        else:
            placements.append(Replicate())
    if rng.random() < special:
        placements[rng.randrange(mesh_ndim)] = _MASK
    if tensor_ndim and rng.random() < strided:
        mesh_dim, factor = rng.randrange(mesh_ndim), rng.choice((2, 2, 3, 4))
        placements[mesh_dim] = _StridedShard(rng.randrange(tensor_ndim), split_factor=factor)
        return left_to_right(placements)
    orders = [
        (dim, tuple(rng.sample(order, len(order))))
        for dim, order in left_to_right(placements).shard_order
    ]
    return Layout(tuple(placements), tuple(orders))


# One object: masked partials are equal only if they share their mask.
_MASK = _MaskPartial(offset_shape=torch.Size((8, 4)), offset_dim=0)


def random_sizes(rng: random.Random, mesh_ndim: int) -> tuple[int, ...]:
    """Sizes of the mesh dims; 3 makes most tensors uneven, 1 makes a mesh dim idle."""
    return tuple(rng.choices((1, 2, 3, 4, 8), (1, 6, 2, 3, 1), k=mesh_ndim))


def random_shape(rng: random.Random, tensor_ndim: int) -> tuple[int, ...]:
    """Even, uneven or tiny sizes, or some of each; seldom none at all."""
    styles = ((64, 768, 2304), (5, 7, 13, 50, 1001), (1, 2, 3), (0, 1, 4, 7, 24, 96))
    return tuple(rng.choices(rng.choices(styles, (5, 3, 1, 2))[0], k=tensor_ndim))


@dataclass(frozen=True)
class Question:
    """From one layout to another: what a planner is asked."""

    model: CostModel
    shape: tuple[int, ...]
    dtype: torch.dtype
    source: Layout
    target: Layout
    memory_limit: int | None = None

    @property
    def problem(self) -> Problem:
        return Problem(
            self.model,
            self.shape,
            self.dtype.itemsize,
            self._state(self.target),
            self.memory_limit,
        )

    @property
    def start(self) -> State:
        return self._state(self.source)

    def specs(self, mesh: DeviceMesh) -> tuple[DTensorSpec, DTensorSpec]:
        """Source and target on a mesh of the model's sizes."""
        return (
            spec_of_layout(mesh, self.shape, self.source, self.dtype),
            spec_of_layout(mesh, self.shape, self.target, self.dtype),
        )

    def _state(self, layout: Layout) -> State:
        return state_of(layout, self.model.sizes, len(self.shape))


def random_question(
    rng: random.Random,
    mesh_ndim: int,
    tensor_ndim: int,
    *,
    strided: float = 0.1,
    special: float = 0.03,
    limited: float = 0.1,
) -> Question:
    """Any two layouts, with the odd ones in the shares given."""
    sizes = random_sizes(rng, mesh_ndim)
    shape = random_shape(rng, tensor_ndim)
    dtype = rng.choice((torch.float32, torch.bfloat16, torch.float64))
    source = random_layout(rng, mesh_ndim, tensor_ndim, strided=strided, special=special)
    target = random_layout(rng, mesh_ndim, tensor_ndim, strided=strided, special=special)
    question = Question(random_model(rng, sizes), shape, dtype, source, target)
    if rng.random() >= limited:
        return question
    problem = question.problem
    ends = problem.bytes_of(question.start) + problem.bytes_of(problem.target)
    limit = int(ends * rng.choice((0.9, 1.0, 1.5, 3.0)))
    return Question(question.model, shape, dtype, source, target, limit)


def spec_of_layout(
    mesh: DeviceMesh, shape: Sequence[int], layout: Layout, dtype: torch.dtype = torch.float32
) -> DTensorSpec:
    """The layout as torch has it; strided shards are those of a view, which stand for no order."""
    if any(isinstance(p, _StridedShard) for p in layout.placements):
        return spec_of(mesh, shape, layout.placements, dtype=dtype, strided_is_order=False)
    return spec_of(mesh, shape, layout.placements, dtype=dtype, order=layout.shard_order)


def spec_of_encoded_layout(
    mesh: DeviceMesh, shape: Sequence[int], layout: Layout, dtype: torch.dtype = torch.float32
) -> DTensorSpec:
    """Plain shards as torch has them where strided ones stand for the order.

    In the default order these are plain again.
    """
    order = tuple(ShardOrderEntry(*entry) for entry in layout.shard_order)
    encoded = DTensorSpec._convert_shard_order_to_StridedShard(order, layout.placements, mesh)
    return spec_of(mesh, shape, encoded, dtype=dtype)
