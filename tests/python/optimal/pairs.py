"""The sets of layout pairs that the planner is tried on, grouped so that the oracle is fast."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Partial, Placement, Replicate
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor.placement_types import _StridedShard

from shardprop.cost.cost_model import (
    CostModel,
    GroupCosts,
    LinearPrice,
    PiecewisePrice,
    PricePiece,
)
from shardprop.model.plan_steps import Layout, Step

from ..parity.meshes import MeshKey
from .brute_force import Total, all_prices
from .core import core_plan, in_core, is_mixed, plan_fault
from .layouts import all_layouts, random_layout, random_sizes, spec_of_layout
from .models import all_groups, random_groups, random_model, ring_model
from .moves import Problem
from .state import NORM, SPECIAL, SS, P, Placed, State, layout_of, left_to_right, state_of

__all__ = ["Batch", "Planned", "all_pairs", "planned", "random_pairs"]

Pattern = tuple[tuple[int, Placed], ...]


@dataclass(frozen=True)
class Batch:
    """Pairs with one source."""

    model: CostModel
    shape: tuple[int, ...]
    dtype: torch.dtype
    source: Layout
    targets: tuple[Layout, ...]
    memory_limit: int | None = None

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The flattened ones."""
        return tuple(g.mesh_dims for g in self.model.groups if len(g.mesh_dims) > 1)

    def state(self, layout: Layout) -> State:
        return state_of(layout, self.model.sizes, len(self.shape))

    def problem(self, target: Layout) -> Problem:
        state = self.state(target)
        return Problem(self.model, self.shape, self.dtype.itemsize, state, self.memory_limit)

    def mesh(self) -> DeviceMesh:
        """Without the groups: which of them there are, the model says."""
        return MeshKey(self.model.sizes).build()

    def spec(self, layout: Layout) -> DTensorSpec:
        return spec_of_layout(self.mesh(), self.shape, layout, self.dtype)

    def least(self) -> Iterator[tuple[Layout, Total | None]]:
        """What the oracle finds, with one search for all targets of a pattern."""
        known: dict[Pattern, dict[State, Total]] = {}
        source_is_mixed = is_mixed(self.spec(self.source))
        for target in self.targets:
            if source_is_mixed or is_mixed(self.spec(target)):
                yield target, None
                continue
            problem = self.problem(target)
            pattern = _pattern(problem.target)
            if pattern not in known:
                known[pattern] = all_prices(problem, self.state(self.source))
            yield target, known[pattern].get(problem.target)


@dataclass(frozen=True)
class Planned:
    """A plan of the core, and why it is not the cheapest, if it is not."""

    batch: Batch
    target: Layout
    steps: tuple[Step, ...] | None
    fault: str | None

    def __str__(self) -> str:
        batch = self.batch
        return (
            f"{batch.shape} on {batch.model.sizes} with {batch.groups}: {batch.state(batch.source)}"
            f" to {batch.state(self.target)}, limit {batch.memory_limit}, plan "
            f"{[f'{step.kind} {step.mesh_dims}' for step in self.steps or ()]}"
        )


def planned(batch: Batch) -> Iterator[Planned]:
    """The core's plan for each pair, held against the oracle."""
    model, source = in_core(batch.model), batch.spec(batch.source)
    for target, least in batch.least():
        steps = core_plan(model, source, batch.spec(target), batch.memory_limit)
        fault = plan_fault(steps, batch.problem(target), batch.state(batch.source), least)
        yield Planned(batch, target, None if steps is None else tuple(steps), fault)


# All pairs ----------------------------------------------------------------------------------------

# Every rank has as much; no mesh dim of the group divides; some ranks have nothing.
_SHAPES = {
    (2, 4): ((16, 8, 8), (6, 8, 4), (9, 5, 7), (3, 1, 8)),
    (3, 2): ((12, 6, 18), (7, 6, 3), (5, 4, 1)),
    (4, 4): ((16, 16, 32), (6, 17, 4)),
    (1, 4): ((8, 4, 4), (5, 2, 6)),
}


def all_pairs(seed: int, meshes: Sequence[tuple[int, int]] = tuple(_SHAPES)) -> Iterator[Batch]:
    """All pairs of 2-D meshes with 3 tensor dims: with a sum in every shard order under several
    models, and with partials of three kinds in the default order; with and without a flattened
    group."""
    rng = random.Random(f"all pairs {seed}")
    ordered = tuple(all_layouts(2, 3, every_order=True))
    kinds = tuple(all_layouts(2, 3, ("sum", "avg", "max")))
    for sizes in meshes:
        several = all_groups(sizes)
        for shape, groups in itertools.product(_SHAPES[sizes], ([], several) if several else ([],)):
            near = _at_size(ring_model(sizes, groups), 2.0**14)
            far = ring_model(sizes, groups, devices_per_host=2)
            models = [near, far, *(_random_with(rng, sizes, groups) for _ in range(2))]
            for number, model in enumerate(models):
                layouts = ordered if number < 3 else kinds
                for source in layouts:
                    yield Batch(model, shape, torch.float32, source, layouts)


def _at_size(model: CostModel, times: float) -> CostModel:
    """As if the tensor were that many times as large."""
    groups = tuple(
        GroupCosts(
            group.mesh_dims,
            tuple(_line_at_size(line, times) for line in group.lines),
        )
        for group in model.groups
    )
    return replace(model, groups=groups, memory_us_per_byte=model.memory_us_per_byte * times)


def _line_at_size(line: LinearPrice | PiecewisePrice, times: float) -> PiecewisePrice:
    return PiecewisePrice(
        tuple(
            PricePiece(piece.from_bytes / times, piece.fixed_us, piece.us_per_byte * times)
            for piece in line.pieces
        )
    )


def _random_with(
    rng: random.Random, sizes: tuple[int, ...], groups: Sequence[tuple[int, ...]]
) -> CostModel:
    """A random model that has these flattened groups."""
    while True:
        model = random_model(rng, sizes)
        several = [group.mesh_dims for group in model.groups if len(group.mesh_dims) > 1]
        if several == [*groups]:
            return model


# Random pairs -------------------------------------------------------------------------------------


def random_pairs(
    seed: int, sources: int, mesh_ndim: int, targets: int = 20, max_ranks: int = 16
) -> Iterator[Batch]:
    """`targets` random layouts for each of the random `sources`, of three tensor dims.

    The targets of a source have the same partials and strided shards, those of a random layout.
    Half of them can be reached; the others are drawn like the sources.
    """
    rng = random.Random(f"random pairs {seed} {mesh_ndim}")
    for _ in range(sources):
        sizes = random_sizes(rng, mesh_ndim)
        while math.prod(sizes) > max_ranks:
            sizes = random_sizes(rng, mesh_ndim)
        model, shape = _model_of(rng, sizes), _small_shape(rng, sizes)
        source = random_layout(rng, mesh_ndim, 3, strided=0.1)
        like = random_layout(rng, mesh_ndim, 3, strided=0.1)
        dtype = rng.choice((torch.float32, torch.bfloat16))
        batch = Batch(model, shape, dtype, source, (like,))
        if rng.random() < 0.15:
            ends = batch.problem(like).bytes_of(batch.state(source))
            batch = replace(batch, memory_limit=1 + int(ends * rng.choice((1.5, 2.5, 6.0))))
        yield replace(batch, targets=tuple(_targets(rng, batch, like, targets)))


def _model_of(rng: random.Random, sizes: tuple[int, ...]) -> CostModel:
    if rng.random() < 0.5:
        return random_model(rng, sizes)
    groups = random_groups(rng, sizes)
    ring = ring_model(sizes, groups, devices_per_host=rng.choice((2, 4, 8)))
    return _at_size(ring, 10.0 ** rng.uniform(0, 6))


def _small_shape(rng: random.Random, sizes: Sequence[int]) -> tuple[int, ...]:
    """Mostly even, uneven or with ranks that have nothing, and small enough to be carried out."""
    even = math.prod(sizes)
    style = rng.choice(((even, 2 * even), (even, 5, 7), (5, 7, 13), (1, 2, 3, 4), (4, 6, 12)))
    return tuple(rng.choices(style, k=3))


def _targets(rng: random.Random, batch: Batch, like: Layout, count: int) -> Iterator[Layout]:
    """Layouts with the partials and strided shards of `like`, which is the first."""
    yield like
    problem, start = batch.problem(like), batch.state(batch.source)
    reached = [layout_of(state) for state in all_prices(problem, start)]
    reached = [layout for layout in reached if _has_spec(layout)]
    for layout in rng.sample(reached, min(len(reached), count // 2)):
        yield layout
        count -= 1
    for _ in range(count - 1):
        yield _with_specials_of(like, random_layout(rng, len(like.placements), 3))


def _has_spec(layout: Layout) -> bool:
    """Beside strided shards torch knows the default order only."""
    strided = any(isinstance(p, _StridedShard) for p in layout.placements)
    return not strided or layout == left_to_right(layout.placements)


def _with_specials_of(like: Layout, layout: Layout) -> Layout:
    """`layout` with `like`'s partials and strided shards and no others, in the default order where
    there are strided shards."""
    special = (Partial, _StridedShard)
    placements: list[Placement] = []
    for given, free in zip(like.placements, layout.placements, strict=True):
        if isinstance(given, special):
            placements.append(given)
        else:
            placements.append(Replicate() if isinstance(free, special) else free)
    default = left_to_right(placements)
    if any(isinstance(p, _StridedShard) for p in placements):
        return default
    wanted = dict(layout.shard_order)
    orders = tuple(
        (dim, tuple(m for m in wanted[dim] if m in order)) for dim, order in default.shard_order
    )
    return Layout(default.placements, orders)


def _pattern(target: State) -> Pattern:
    return tuple((m, p) for m, p in enumerate(target.placed) if p.kind in (P, NORM, SPECIAL, SS))
