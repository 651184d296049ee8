"""Prices and plans of redistributions: torch's, computed by the core.

Where torch's plan would move wrong data, another stands in its place (`cut_order`, `merging`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from .. import _core, _torch
from .._torch import (
    DTensorSpec,
    Placement,
    SymInt,
    TransformInfo,
    UnmergedTransformInfo,
    has_strided,
)
from .._torch.symbolic_sizes import is_symbolic
from ..corrections.correction import Correction
from ..corrections.strided_out_of_order import STRIDED_OUT_OF_ORDER
from ..corrections.uneven_flattened_gather import UNEVEN_FLATTENED_GATHER
from ..errors import ShardpropError
from ..model.mesh import core_mesh
from ..model.symbolic_guards import symbolic_cost
from ..support.cache import BoundedMap
from ..support.stats import Recorder
from .cut_order import Change, cuts_of, follows_cuts, layouts_before, moves_by_cuts
from .execution import local_shape
from .merging import not_to_merge
from .moves import Move

__all__ = ["TorchPlan", "TorchPlanner", "TorchStep"]

_PLANS_HELD = 4096

# In LocalTensorMode: for each rank its coordinate in a mesh.
_Coordinates = dict[int, list[int]]


@dataclass(frozen=True)
class TorchStep:
    """One collective or local step on one mesh dim.

    Attributes:
        mesh_dim: The mesh dim.
        src: Placement before the step, on that mesh dim.
        dst: Placement after it.
        logical_shape: Shape of the tensor that this mesh dim cuts, on this rank.
    """

    mesh_dim: int
    src: Placement
    dst: Placement
    logical_shape: list[int]


@dataclass(frozen=True)
class TorchPlan:
    """How a tensor goes from one layout to another.

    Attributes:
        steps: In the order in which they run.
        by_graph: Planned by torch's graph planner (else by its greedy one).
    """

    steps: tuple[TorchStep, ...]
    by_graph: bool


class _Planned(NamedTuple):
    """The steps as torch has them, and the fault of torch's own plan that they put right."""

    infos: list[Any]
    correction: Correction | None


class TorchPlanner:
    """torch's prices and plans, from the core, with torch's own planner behind for the rest.

    Args:
        recorder: Where to count.
        corrects: Are other plans made in place of those that move wrong data?
    """

    def __init__(self, recorder: Recorder, corrects: bool = True) -> None:
        self._recorder = recorder
        self._corrects = corrects
        self._plans: BoundedMap[list[Any]] = BoundedMap("plans", _PLANS_HELD)
        # Apart, so that the others are found without a look at what is to be counted.
        self._corrected: BoundedMap[_Planned] = BoundedMap("corrected plans", _PLANS_HELD)
        self._decision = threading.local()

    def clear(self) -> None:
        """Forget all plans."""
        self._plans.clear()
        self._corrected.clear()

    @contextmanager
    def one_decision(self) -> Iterator[None]:
        """Prices asked for in the block share the history of torch's graph planners."""
        decision = self._decision
        if getattr(decision, "under_way", False):
            yield
            return
        decision.under_way = True
        try:
            yield
        finally:
            decision.under_way = False
            decision.history = None

    def _history(self) -> _core.History:
        """The history of the decision under way, or none; while tracing torch keeps none."""
        decision = self._decision
        if not getattr(decision, "under_way", False) or _torch.are_we_tracing():
            return _core.History()
        if getattr(decision, "history", None) is None:
            decision.history = _core.History()
        return decision.history  # type: ignore[no-any-return]

    def cost(self, src: DTensorSpec, dst: DTensorSpec) -> float:
        """torch's ``redistribute_cost``: microseconds, ``inf`` where torch refuses.

        Raises:
            AssertionError: torch's planner finds no path, in torch's words.
        """
        if src.mesh is not dst.mesh and src.mesh != dst.mesh:
            return float("inf")
        try:
            cost = self._history().cost(core_mesh(src.mesh), src, dst, _torch.forces_graph_plan())
        except _core.Unsupported as reason:
            return self._price_otherwise(src, dst, str(reason))
        if cost is None:
            return _torch.torch_redistribute_cost(src, dst)
        return float(cost)

    def _price_otherwise(self, src: DTensorSpec, dst: DTensorSpec, reason: str) -> float:
        """The price as an expression if the sizes are, else torch's, counted by `reason`."""
        if is_symbolic(src.shape):
            try:
                price: float = symbolic_cost(src, dst)  # or a SymFloat; torch says float too
                return price
            except _core.Unsupported as declined:
                reason = str(declined)
        self._recorder.price_fell_back(reason)
        return _torch.torch_redistribute_cost(src, dst)

    def plan(self, src: DTensorSpec, dst: DTensorSpec) -> TorchPlan:
        """torch's plan, made by a fresh planner; another one where that moves wrong data.

        Raises:
            ShardpropError: no plan, or a spec that the core does not model.
        """
        by_graph, planned = self._fresh(src, dst)
        steps = []
        for info in planned.infos:
            before, after = info.src_dst_placements
            steps.append(TorchStep(info.mesh_dim, before, after, list(info.logical_shape)))
        return TorchPlan(tuple(steps), by_graph and planned.correction is not STRIDED_OUT_OF_ORDER)

    def merged(self, src: DTensorSpec, dst: DTensorSpec) -> list[tuple[tuple[int, ...], Placement]]:
        """The plan as torch carries it out, collectives merged on flattened meshes: the mesh dims
        of each step, and the placement after it.

        Raises:
            ShardpropError: as `plan` does.
        """
        return _torch.merged_steps(self._fresh(src, dst)[1].infos, src, dst)

    def _fresh(self, src: DTensorSpec, dst: DTensorSpec) -> tuple[bool, _Planned]:
        if src.mesh is not dst.mesh and src.mesh != dst.mesh:
            raise ShardpropError("Expected two specs on one mesh, got two meshes.")
        mesh = core_mesh(src.mesh)
        if not mesh.member:
            raise ShardpropError("Expected a mesh that this rank belongs to.")
        try:
            status, by_graph, steps = _core.plan(mesh, src, dst, _torch.forces_graph_plan())
        except _core.Unsupported as reason:
            raise ShardpropError(f"Expected specs that the core models, got a {reason}.") from None
        if status != _core.PlanStatus.FOUND:
            raise ShardpropError(
                f"No plan from {src.placements} to {dst.placements}: torch's graph planner does "
                "not reach it. Redistribute to Replicate on that mesh dim first."
            )
        return by_graph, self._put_right(_infos(steps), by_graph, src, dst)

    def transform_infos(
        self, src: DTensorSpec, dst: DTensorSpec, use_graph_based_transform: bool | None = None
    ) -> list[Any]:
        """Stands in for torch's ``_gen_transform_infos``: the same steps, from the core."""
        try:
            if _torch.plans_for_any_rank():
                raise _core.Unsupported("shapes of several ranks in a plan")
            ranks = None
            if _torch.in_local_tensor_mode():
                ranks = _torch.coordinates_of_ranks(src.mesh)
            force = _torch.graph_plan_wanted(use_graph_based_transform)
            mesh = core_mesh(src.mesh)
            key = self._key(mesh, ranks, src, dst, force)
            infos = self._plans.get(key) if key else None
            if infos is None:
                planned = self._planned(key, mesh, ranks, src, dst, force)
                if planned.correction is not None:
                    self._recorder.plan_corrected(planned.correction.name)
                infos = planned.infos
        except _core.Unsupported as reason:
            self._recorder.price_fell_back(str(reason))
            return _torch.torch_gen_transform_infos_non_cached(src, dst, use_graph_based_transform)
        return infos

    def _planned(
        self,
        key: bytes,
        mesh: _core.Mesh,
        ranks: _Coordinates | None,
        src: DTensorSpec,
        dst: DTensorSpec,
        force_graph: bool,
    ) -> _Planned:
        """A plan that is not among torch's own that are held."""
        planned = self._corrected.get(key) if key else None
        if planned is None:
            by_graph, infos = _torchs_plan(mesh, ranks, src, dst, force_graph)
            planned = self._put_right(infos, by_graph, src, dst)
            if key and planned.correction is None:
                self._plans.put(key, planned.infos)
            elif key:
                self._corrected.put(key, planned)
        return planned

    def move(self, src: DTensorSpec, dst: DTensorSpec) -> Move | None:
        """The plan as functions of the local tensor; counted nowhere. None: torch's own code."""
        mesh = core_mesh(src.mesh)
        force = _torch.forces_graph_plan()
        key = self._key(mesh, None, src, dst, force)
        try:
            infos, fault = self._planned(key, mesh, None, src, dst, force)
        except _core.Unsupported:
            return None
        steps = _torch.local_steps(infos, src, dst)
        if steps is None:
            return None
        return Move(src, dst, steps, None if fault is None else fault.name)

    def _put_right(
        self, infos: list[Any], by_graph: bool, src: DTensorSpec, dst: DTensorSpec
    ) -> _Planned:
        """torch's steps, or others in their place."""
        if not self._corrects:
            return _Planned(infos, None)
        fault = None
        if has_strided(src.placements) or has_strided(dst.placements):
            infos, fault = _in_order(infos, by_graph, src, dst)
        for run in not_to_merge(_moves(infos), src) if len(infos) > 1 else ():
            mesh_dims = tuple(sorted(infos[index].mesh_dim for index in run))
            if _torch.flattened_mesh(src.mesh, mesh_dims) is not None:
                fault = fault or UNEVEN_FLATTENED_GATHER
            for index in run:  # without a flattened mesh, too: there may be one later
                infos[index] = _unmerged(infos[index])
        return _Planned(infos, fault)

    @staticmethod
    def _key(
        mesh: _core.Mesh,
        ranks: _Coordinates | None,
        src: DTensorSpec,
        dst: DTensorSpec,
        force_graph: bool,
    ) -> bytes:
        """The key of a plan, empty if it must not be held: an opaque placement is no key."""
        source, target = _core.spec_key(src), _core.spec_key(dst)
        if not source or not target:
            return b""
        key = mesh.key + source + target + (b"\1" if force_graph else b"\0")
        return key if ranks is None else key + repr(ranks).encode()

    def install_plans(self) -> None:
        """Put these plans in the place of torch's."""

        def cached(src: Any, dst: Any, use_graph_based_transform: bool | None = None) -> list[Any]:
            return self.transform_infos(src, dst, use_graph_based_transform)

        # torch tells its users to call cache_clear() on this function.
        cached.cache_clear = self.clear  # type: ignore[attr-defined]
        _torch.install_plans(cached, self.transform_infos)


def _torchs_plan(
    mesh: _core.Mesh,
    ranks: _Coordinates | None,
    src: DTensorSpec,
    dst: DTensorSpec,
    force_graph: bool,
) -> tuple[bool, list[Any]]:
    """Was it planned on the graph, and the steps as torch has them: for this rank, or for all ranks
    that this process stands for.

    Raises:
        _core.Unsupported: torch's own planner is to say.
    """
    if ranks is None:
        status, by_graph, steps = _core.plan(mesh, src, dst, force_graph)
        infos = _infos(steps)
    else:
        places = [*ranks.values()]
        status, by_graph, of_ranks = _core.plan_for_ranks(mesh, places, src, dst, force_graph)
        infos = _infos_of_ranks(of_ranks, ranks)
    if status != _core.PlanStatus.FOUND:
        raise _core.Unsupported("no path in torch's graph planner")
    return by_graph, infos


def _infos(steps: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [TransformInfo(m, (before, after), shape) for m, before, after, shape in steps]


def _infos_of_ranks(steps: Sequence[tuple[Any, ...]], ranks: _Coordinates) -> list[Any]:
    """A size is an int with a value for each rank where these differ."""

    def shape_of_ranks(shapes: list[list[int]]) -> list[int | SymInt]:
        by_dim = zip(*shapes, strict=True)
        return [_torch.int_of_ranks(dict(zip(ranks, sizes, strict=True))) for sizes in by_dim]

    return [
        TransformInfo(m, (before, after), shape_of_ranks(shapes))
        for m, before, after, shapes in steps
    ]


def _moves(infos: Sequence[Any]) -> list[Change]:
    return [(info.mesh_dim, *info.src_dst_placements) for info in infos]


def _in_order(
    infos: list[Any], by_graph: bool, src: DTensorSpec, dst: DTensorSpec
) -> tuple[list[Any], Correction | None]:
    """torch's steps where they keep to the order of the cuts, or others that do."""
    mesh = src.mesh
    source, target = cuts_of(src), cuts_of(dst)
    moves = [move for move in _moves(infos) if mesh.size(move[0]) > 1]
    if follows_cuts(moves, source, target, by_graph):
        return infos, None
    moves = moves_by_cuts(source, target)
    return [
        TransformInfo(m, (before, after), local_shape(layout, src.shape, mesh, without=(m,)))
        for (m, before, after), layout in zip(moves, layouts_before(moves, source), strict=True)
    ], STRIDED_OUT_OF_ORDER


def _unmerged(info: Any) -> Any:
    return UnmergedTransformInfo(info.mesh_dim, info.src_dst_placements, info.logical_shape)
