"""Prices and plans of redistributions: torch's, computed by the core."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .. import _core, _torch
from .._torch import DTensorSpec, Placement, SymInt, TransformInfo
from .._torch.symbolic_sizes import is_symbolic
from ..errors import ShardpropError
from ..model.mesh import core_mesh
from ..model.symbolic_guards import symbolic_cost
from ..support.cache import BoundedMap
from ..support.stats import Recorder

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


class TorchPlanner:
    """torch's prices and plans, from the core, with torch's own planner behind for the rest."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._plans: BoundedMap[list[Any]] = BoundedMap("plans", _PLANS_HELD)
        self._decision = threading.local()

    def clear(self) -> None:
        """Forget all plans."""
        self._plans.clear()

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
        """torch's plan, made by a fresh planner.

        Raises:
            ShardpropError: no plan, or a spec that the core does not model.
        """
        if src.mesh is not dst.mesh and src.mesh != dst.mesh:
            raise ShardpropError("Expected two specs on one mesh, got two meshes.")
        mesh = core_mesh(src.mesh)
        if not mesh.member:
            raise ShardpropError("Expected a mesh that this rank belongs to.")
        force_graph = _torch.forces_graph_plan()
        try:
            status, by_graph, steps = _core.plan(mesh, src, dst, force_graph)
        except _core.Unsupported as reason:
            raise ShardpropError(f"Expected specs that the core models, got a {reason}.") from None
        if status != _core.PlanStatus.FOUND:
            raise ShardpropError(
                f"No plan from {src.placements} to {dst.placements}: torch's graph planner does "
                "not reach it. Redistribute to Replicate on that mesh dim first."
            )
        return TorchPlan(tuple(TorchStep(*step) for step in steps), by_graph)

    def merged(self, src: DTensorSpec, dst: DTensorSpec) -> list[tuple[tuple[int, ...], Placement]]:
        """torch's plan as torch carries it out, collectives merged on flattened meshes: the mesh
        dims of each step, and the placement after it.

        Raises:
            ShardpropError: as `plan` does.
        """
        infos = [
            TransformInfo(step.mesh_dim, (step.src, step.dst), step.logical_shape)
            for step in self.plan(src, dst).steps
        ]
        return _torch.merged_steps(infos, src, dst)

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
                if ranks is None:
                    infos = _infos(mesh, src, dst, force)
                else:
                    infos = _infos_of_ranks(mesh, ranks, src, dst, force)
                if key:
                    self._plans.put(key, infos)
        except _core.Unsupported as reason:
            self._recorder.price_fell_back(str(reason))
            return _torch.torch_gen_transform_infos_non_cached(src, dst, use_graph_based_transform)
        return infos

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


def _infos(mesh: _core.Mesh, src: DTensorSpec, dst: DTensorSpec, force_graph: bool) -> list[Any]:
    """The steps for this rank, as torch has them."""
    status, _, steps = _core.plan(mesh, src, dst, force_graph)
    _check_found(status)
    return [TransformInfo(m, (before, after), shape) for m, before, after, shape in steps]


def _infos_of_ranks(
    mesh: _core.Mesh,
    ranks: _Coordinates,
    src: DTensorSpec,
    dst: DTensorSpec,
    force_graph: bool,
) -> list[Any]:
    """The steps for all ranks that this process stands for, as torch has them: a size is an int
    with a value for each rank where these differ."""
    status, _, steps = _core.plan_for_ranks(mesh, [*ranks.values()], src, dst, force_graph)
    _check_found(status)

    def shape_of_ranks(shapes: list[list[int]]) -> list[int | SymInt]:
        by_dim = zip(*shapes, strict=True)
        return [_torch.int_of_ranks(dict(zip(ranks, sizes, strict=True))) for sizes in by_dim]

    return [
        TransformInfo(m, (before, after), shape_of_ranks(shapes))
        for m, before, after, shapes in steps
    ]


def _check_found(status: int) -> None:
    if status != _core.PlanStatus.FOUND:
        raise _core.Unsupported("no path in torch's graph planner")
