"""The cheapest plans, and their prices, under one cost model, from the core."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _core, _torch
from .._torch import DeviceMesh, DTensorSpec, Placement, Replicate, TensorMeta, make_spec
from ..cost.topology import CostSource
from ..errors import ShardpropError
from ..model.plan_steps import Layout, Step
from ..support.cache import BoundedMap
from .execution import compiled
from .hint import Hint, hint_of
from .mesh_cost_models import MeshModels
from .moves import Move

__all__ = ["ExactPlanner", "PlanPrice"]

_PLANS_HELD = 4096


class PlanPrice(NamedTuple):
    """What the cheapest plan costs; ``inf`` where there is none.

    Attributes:
        us: Microseconds in all.
        comm_us: Microseconds of communication.
        collectives: How many there are; they may cost nothing.
    """

    us: float
    comm_us: float
    collectives: float


_NO_PRICE = PlanPrice(float("inf"), float("inf"), float("inf"))


class ExactPlanner:
    """The cheapest plans under a topology.

    Args:
        topology: What collectives and local work cost.
        memory_limit: Bytes that a rank may hold at once during a step of a plan; None: any.
        create_groups: Flatten every set of mesh dims that has no process group yet, when the mesh
            is first met. That is collective: every rank of the root mesh must meet it.
        output_weight: What part of the price of reducing an output's pending partials is counted
            with a choice.
    """

    def __init__(
        self,
        topology: CostSource,
        *,
        memory_limit: float | None = None,
        create_groups: bool = False,
        output_weight: float = 0.0,
    ) -> None:
        self.topology = topology
        self.memory_limit = memory_limit
        # The core's form: 0 for any.
        self.limit_bytes = 0.0 if memory_limit is None else float(memory_limit)
        self._output_weight = output_weight
        self.models = MeshModels(topology, create_groups)
        # With each its model, which keeps the number from becoming another's.
        self._plans: BoundedMap[tuple[_core.CostModel, list[Step] | None]] = BoundedMap(
            "exact plans", _PLANS_HELD
        )

    @property
    def output_weight(self) -> float:
        """What part of the price of reducing outputs counts with a decision that leaves them."""
        return self._output_weight

    @property
    def settings(self) -> tuple[object, ...]:
        """What decisions and plans depend on; equal where these are the same."""
        return self.topology, self.memory_limit, self._output_weight

    def clear(self) -> None:
        """Forget all plans, and what the topology says of each mesh."""
        self._plans.clear()
        self.models.clear()

    def notice_groups(self, mesh: DeviceMesh) -> None:
        """Clear torch's caches of decisions, if these were made with other flattened groups than
        the mesh has.

        Not while an op is being decided: torch's dispatcher holds on to its cache meanwhile.
        """
        with suppress(_core.Unsupported):  # a mesh without a model
            self.models.of(mesh)
        if self.models.outdated:
            self.models.outdated = False
            _torch.forget_decisions()

    def steps(self, src: DTensorSpec, dst: DTensorSpec) -> list[Step] | None:
        """The cheapest plan, the same on every rank; None where there is none.

        Raises:
            ShardpropError: the topology does not fit the mesh.
            _core.Unsupported: specs that the core does not model.
        """
        model = self.models.of(src.mesh)
        source, target = _core.spec_key(src), _core.spec_key(dst)
        key = (id(model), source, target)
        cached = self._plans.get(key)
        if cached is not None:
            return cached[1]
        plan = self._searched(model, src, dst)
        if source and target:
            self._plans.put(key, (model, plan))
        return plan

    def _searched(
        self, model: _core.CostModel, src: DTensorSpec, dst: DTensorSpec
    ) -> list[Step] | None:
        found, steps, _ = _core.exact_plan(model, src, dst, self.limit_bytes)
        return steps_of(steps) if found else None

    def hint(self, src: DTensorSpec, dst: DTensorSpec, cost_us: float) -> Hint | None:
        """What flattened meshes would save a plan of `cost_us` microseconds; None: nothing, or too
        many layouts to find out.

        Raises:
            ShardpropError: the topology does not fit the mesh.
        """
        model = self.models.with_every_group(src.mesh)
        try:
            steps = None if model is None else self._searched(model, src, dst)
        except _core.Unsupported:
            return None
        return None if steps is None else hint_of(src.mesh, cost_us, steps)

    def move(self, src: DTensorSpec, dst: DTensorSpec) -> Move | None:
        """The cheapest plan as functions of the local tensor; None where there is none, or the core
        does not model the specs.

        Raises:
            ShardpropError: the topology does not fit the mesh.
        """
        try:
            steps = self._searched(self.models.of(src.mesh), src, dst)  # moves are held themselves
        except _core.Unsupported:
            return None
        return None if steps is None else Move(src, dst, compiled(steps, src.mesh, src.shape))

    def price(self, src: DTensorSpec, dst: DTensorSpec) -> PlanPrice:
        """What the cheapest plan costs.

        Raises:
            ShardpropError: the topology does not fit the mesh.
            _core.Unsupported: specs that the core does not model.
        """
        price = _core.exact_price(self.models.of(src.mesh), src, dst, self.limit_bytes)
        return _NO_PRICE if price is None else PlanPrice(*price)

    def prices(
        self,
        meta: TensorMeta,
        mesh: DeviceMesh,
        from_layouts: Sequence[Sequence[Placement]],
        to_layouts: Sequence[Sequence[Placement]],
    ) -> NDArray[np.float64]:
        """What the cheapest plans cost between layouts of one tensor: what `price` says of each
        pair, in one call.

        Args:
            meta: Shape and dtype of the whole tensor.
            mesh: Where it is.
            from_layouts: Per source a placement for each mesh dim. Strided shards stand for a shard
                order where there is one that they can stand for.
            to_layouts: Per target, likewise.

        Returns:
            Microseconds [targets, sources]; ``inf`` where there is no plan.

        Raises:
            ShardpropError: the topology does not fit the mesh, or a layout has another number of
                placements than the mesh has dims.
            _core.Unsupported: layouts that the core does not model.
        """
        mesh_dims = mesh.ndim
        for name, layouts in (("from_layouts", from_layouts), ("to_layouts", to_layouts)):
            for index, layout in enumerate(layouts):
                if len(layout) != mesh_dims:
                    raise ShardpropError(
                        f"{name}[{index}]: Expected {mesh_dims} placements, one for each mesh dim, "
                        f"got {len(layout)}."
                    )
        spec = make_spec(mesh, (Replicate(),) * mesh_dims, meta)
        model = self.models.of(mesh)
        return _core.price_table(model, spec, from_layouts, to_layouts, self.limit_bytes)

    def priced(
        self, src: DTensorSpec, dst: DTensorSpec, steps: Sequence[tuple[tuple[int, ...], Any]]
    ) -> list[Step]:
        """Steps that somebody else planned, each (mesh dims, placement after it), with prices.

        Raises:
            ShardpropError: one of them is no move that has a price, or they lead elsewhere.
            _core.Unsupported: specs that the core does not model.
        """
        found, priced, followed = _core.price_steps_of(self.models.of(src.mesh), src, dst, steps)
        if found:
            return steps_of(priced)
        of_plan = f"a plan from {src.placements} to {dst.placements}"
        if followed == len(steps):
            raise ShardpropError(
                f"Expected steps that lead to the target, got {of_plan} that ends in another shard "
                "order."
            )
        mesh_dims, placement = steps[followed]
        raise ShardpropError(
            f"Expected steps that move the right data, got one to {placement} on mesh dims "
            f"{mesh_dims} of {of_plan} that does not."
        )


def steps_of(steps: Sequence[tuple[Any, ...]]) -> list[Step]:
    """Steps as the core gives them."""
    return [
        Step(kind, mesh_dims, Layout(*before), Layout(*after), *rest)
        for kind, mesh_dims, before, after, *rest in steps
    ]
