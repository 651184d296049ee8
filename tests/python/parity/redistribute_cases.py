"""One redistribution: what it costs and how it is planned, by torch and by shardprop."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch.distributed.tensor import _collective_utils, _redistribute
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor.placement_types import Placement, _StridedShard

from ..quiet import quiet
from .dice import Dice
from .layouts import Kind, Layout, Operand, draw_layout, twist
from .meshes import MeshKey, draw_mesh, ensure_process_group
from .mix import weighted
from .oracle import forget_history
from .outcome import Normalizer
from .sketch import numel

# Taken before anything can replace them.
_TORCH_COST = _collective_utils.redistribute_cost
_TORCH_PLAN = _redistribute._gen_transform_infos_non_cached


@dataclass(frozen=True)
class Pair:
    """A source and a target of one tensor. ``min_cost`` forces torch's graph planner."""

    source: Operand
    target: Operand
    min_cost: bool
    name: str = field(default="", compare=False)

    @property
    def mesh(self) -> MeshKey:
        return self.source.layout.mesh

    def specs(self) -> tuple[DTensorSpec, DTensorSpec]:
        return self.source.spec(), self.target.spec()

    @property
    def huge(self) -> bool:
        """2**53 bytes or more, where shardprop leaves the arithmetic to torch."""
        sketch = self.source.sketch
        return numel(sketch.shape) * sketch.dtype.itemsize >= 1 << 53

    @property
    def same_mesh(self) -> bool:
        return self.mesh == self.target.layout.mesh

    def __str__(self) -> str:
        how = ", min-cost plans" if self.min_cost else ""
        return f"{self.source} -> {self.target.layout} on mesh {self.target.layout.mesh}{how}"


@dataclass(frozen=True)
class PairMix:
    """Weights of what is drawn. A graph plan costs torch 1 ms on two mesh dims, 1 s on four."""

    mesh_ndim: Mapping[int, float] = field(default_factory=lambda: {1: 20, 2: 56, 3: 23, 4: 1})
    kind: Mapping[Kind, float] = field(
        default_factory=lambda: {
            Kind.PLAIN: 55,
            Kind.ORDERED: 14,
            Kind.STRIDED_ORDER: 12,
            Kind.STRIDED_VIEW: 13,
            Kind.MASK_PARTIAL: 4,
            Kind.NORM_PARTIAL: 2,
        }
    )
    min_cost: float = 0.25


DEFAULT = PairMix()


def pair_at(seed: int, index: int, mix: PairMix = DEFAULT) -> Pair:
    rng = random.Random(f"redistribute:{seed}:{index}")
    return replace(draw_pair(rng, mix), name=f"{seed}:{index}")


def draw_pair(rng: random.Random, mix: PairMix = DEFAULT) -> Pair:
    mesh = draw_mesh(rng, weighted(rng, mix.mesh_ndim))
    dice = Dice(rng, mesh)
    # Every tensor dim multiplies the states of the graph search.
    ndim = dice.between(0, {1: 4, 2: 4, 3: 3, 4: 2}[mesh.ndim])
    sketch = dice.tensor(dice.shape(ndim), dice.floats())
    # A replicated source costs nothing, and neither does staying as it is: keep those few.
    for _ in range(3):
        source = draw_layout(rng, ndim, mesh, weighted(rng, mix.kind))
        if not all(placement.is_replicate() for placement in source.placements):
            break
    for _ in range(3):
        if rng.random() < 0.4:  # near the source: most redistributions change one thing
            target = _change_one(rng, ndim, source, weighted(rng, mix.kind))
        else:
            target = draw_layout(rng, ndim, mesh, weighted(rng, mix.kind))
        if target.placements != source.placements:
            break
    if rng.random() < 0.01:
        target = replace(target, mesh=draw_mesh(rng, mesh.ndim))
    min_cost = rng.random() < mix.min_cost and mesh.ndim < 4
    return Pair(Operand(sketch, source), Operand(sketch, target), min_cost)


def _change_one(rng: random.Random, ndim: int, layout: Layout, kind: Kind) -> Layout:
    placements = list(layout.placements)
    at = rng.randrange(layout.mesh.ndim)
    placements[at] = draw_layout(rng, ndim, layout.mesh).placements[at]
    return twist(rng, ndim, _with_placements(layout, tuple(placements)), kind)


def _with_placements(layout: Layout, placements: tuple[Placement, ...]) -> Layout:
    """Other placements with the flag of the old ones where they still hold strided shards."""
    strided = any(isinstance(p, _StridedShard) for p in placements)
    return Layout(layout.mesh, placements, None, layout.strided_is_order if strided else None)


# Answers ------------------------------------------------------------------------------------------

Step = tuple[int, str, str, tuple[int, ...]]


@dataclass(frozen=True)
class Answer:
    """Cost as the exact bits of the float, plan as steps; or the name of the error of either."""

    cost: str
    plan: tuple[Step, ...] | str

    def refusing(self) -> Answer:
        """With any error of the plan as a refusal: `shardprop.plan` has an error of its own."""
        return replace(self, plan=REFUSED) if isinstance(self.plan, str) else self


REFUSED = "refused"


def torch_answer(pair: Pair) -> Answer:
    """torch's cost and plan, each from a fresh planner; call it while shardprop is disabled."""
    return _answer(pair, _TORCH_COST, lambda source, target: _infos(_TORCH_PLAN(source, target)))


def shardprop_answer(pair: Pair) -> Answer:
    """What shardprop's own functions say; compare with `Answer.refusing` of torch's."""
    import shardprop
    from shardprop.propagation.propagator import torch_planner

    def plan(source: DTensorSpec, target: DTensorSpec) -> tuple[Step, ...] | str:
        try:
            steps = torch_planner().plan(source, target).steps
        except shardprop.ShardpropError:
            return REFUSED
        return _steps((s.mesh_dim, s.src, s.dst, s.logical_shape) for s in steps)

    return _answer(pair, shardprop.redistribute_cost, plan)


def hooked_answer(pair: Pair) -> Answer:
    """What DTensor gets from torch's functions while shardprop is enabled."""
    return _answer(
        pair,
        lambda source, target: _collective_utils.redistribute_cost(source, target),
        lambda source, target: _infos(_redistribute._gen_transform_infos(source, target)),
    )


def _infos(infos: Iterable[Any]) -> tuple[Step, ...]:
    return _steps((i.mesh_dim, *i.src_dst_placements, i.logical_shape) for i in infos)


def _steps(steps: Iterable[tuple[Any, ...]]) -> tuple[Step, ...]:
    names = Normalizer()
    return tuple(
        (mesh_dim, names.placement(source), names.placement(target), tuple(shape))
        for mesh_dim, source, target, shape in steps
    )


def _answer(
    pair: Pair,
    cost: Callable[[DTensorSpec, DTensorSpec], float],
    plan: Callable[[DTensorSpec, DTensorSpec], tuple[Step, ...] | str],
) -> Answer:
    ensure_process_group()
    with _planner(pair.min_cost):
        priced = _try(lambda: float(cost(*pair.specs())).hex())
        # torch does not plan between meshes; its planner would only look at the source's.
        planned = _try(lambda: plan(*pair.specs())) if pair.same_mesh else ()
    return Answer(priced, planned)


def _try(ask: Callable[[], Any]) -> Any:
    forget_history()
    with quiet():
        try:
            return ask()
        except Exception as error:  # an error is an answer
            return type(error).__name__


def _planner(min_cost: bool) -> contextlib.AbstractContextManager[Any]:
    if min_cost:
        return _redistribute.use_min_cost_redistribution_plan(True)
    return contextlib.nullcontext()
