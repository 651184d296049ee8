"""Plans, prices and choices under one cost model, from the core."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from . import _core, _torch
from ._torch import DeviceMesh, DTensorSpec, TensorMeta
from .bounded import BoundedMap
from .cost_model import CostModel
from .engine import Choice, Prepared, Question, chosen
from .errors import ShardpropError
from .plans import Layout, Step
from .topology import CostSource

__all__ = ["ExactPlanner"]

_PLANS_HELD = 4096


class _Models:
    """The core's cost models of one mesh: with its flattened groups, and without any."""

    def __init__(self, mesh: DeviceMesh, topology: CostSource) -> None:
        self.flattened = _torch.flattened_groups(mesh)
        self.mesh = weakref.ref(mesh)
        model = topology.on(mesh, self.flattened)
        self.merging = _in_core(model, len(mesh.shape))
        self.single = _in_core(model, 1)

    def are_of(self, mesh: DeviceMesh) -> bool:
        """Are they still right? A mesh may get flattened groups at any time."""
        return self.mesh() is mesh and self.flattened == _torch.flattened_groups(mesh)


def _in_core(model: CostModel, most_mesh_dims: int) -> _core.CostModel:
    """The core's form of a cost model, without the groups of more mesh dims."""
    groups = [
        (group.mesh_dims, [(line.fixed_us, line.us_per_byte) for line in group.lines])
        for group in model.groups
        if len(group.mesh_dims) <= most_mesh_dims
    ]
    return _core.CostModel(
        model.sizes,
        groups,
        model.kernel_us,
        model.memory_us_per_byte,
        model.all_to_all_gathers,
        model.callback,
    )


class ExactPlanner:
    """The cheapest plans and choices under a topology.

    Args:
        topology: What collectives and local work cost.
        memory_limit: Bytes that a rank may hold at once during a step of a plan; None: any.
        create_groups: Flatten every set of mesh dims that has no process group yet, when the mesh
            is first met. That opens process groups, so every rank of the root mesh has to come by.
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
        self._memory_limit = 0.0 if memory_limit is None else float(memory_limit)
        self._create_groups = create_groups
        self._output_weight = output_weight
        self._models: dict[int, _Models] = {}
        self._plans: BoundedMap[tuple[_core.CostModel, list[Step] | None]] = BoundedMap(
            "exact plans", _PLANS_HELD
        )

    def clear(self) -> None:
        """Forget all plans, and what the topology says of each mesh."""
        self._plans.clear()
        self._models.clear()

    def model(self, mesh: DeviceMesh) -> _core.CostModel:
        """The cost model of a mesh, with its flattened groups unless the program forbids to merge.

        Raises:
            ShardpropError: the topology does not fit the mesh.
            _core.Unsupported: a mesh of no dims, or of more than 8.
        """
        known = self._models.get(id(mesh))
        if known is None or not known.are_of(mesh):
            if self._create_groups and known is None and mesh.mesh_dim_names is not None:
                for mesh_dims in _torch.groups_to_flatten(mesh):
                    _torch.flatten_dims(mesh, mesh_dims)
            try:
                known = _Models(mesh, self.topology)
            except _core.CostError as error:
                raise ShardpropError(f"topology: {error}") from None
            key = id(mesh)
            self._models[key] = known
            weakref.finalize(mesh, self._models.pop, key, None)
        return known.single if _torch.merging_disabled() else known.merging

    def steps(self, src: DTensorSpec, dst: DTensorSpec) -> list[Step] | None:
        """The cheapest plan, the same on every rank; None where there is none.

        Raises:
            _core.Unsupported: specs that the core does not model.
        """
        model = self.model(src.mesh)
        source, target = _core.spec_key(src), _core.spec_key(dst)
        key = (id(model), source, target)
        held = self._plans.get(key) if source and target else None
        if held is not None and held[0] is model:
            return held[1]
        found, steps, _ = _core.exact_plan(model, src, dst, self._memory_limit)
        plan = steps_of(steps) if found else None
        if source and target:
            self._plans.put(key, (model, plan))
        return plan

    def price(self, src: DTensorSpec, dst: DTensorSpec) -> tuple[float, float]:
        """Microseconds of the cheapest plan: in all, and of communication; ``inf`` if none.

        Raises:
            _core.Unsupported: specs that the core does not model.
        """
        price = _core.exact_price(self.model(src.mesh), src, dst, self._memory_limit)
        return (float("inf"), float("inf")) if price is None else price[:2]

    def choose(
        self,
        question: Question,
        prepared: Prepared,
        consumers: Sequence[DTensorSpec | None] | None = None,
        output_weight: float | None = None,
    ) -> Choice:
        """The choice of least total price.

        Args:
            question: What is asked.
            prepared: It, as the core is asked.
            consumers: Per output the spec that its known consumer wants, or None.
            output_weight: Instead of the planner's.

        Raises:
            _core.Unsupported: the core does not handle this; its text is the reason.
            NoStrategyError: there is nothing to choose, and torch would raise.
        """
        weight = self._output_weight if output_weight is None else output_weight
        weighed = _weighed(question, prepared, consumers) if weight else None
        verdict, placements, cost, operand_costs, nodes, later = _core.decide_exactly(
            self.model(prepared.mesh),
            self._memory_limit,
            weight if weighed is not None else 0.0,
            weighed,
            *prepared.arguments,
        )
        if verdict == 3:
            raise _core.Unsupported("no plan reaches any strategy")
        choice = chosen(prepared, verdict, placements, cost, operand_costs, nodes)
        return choice._replace(output_cost=later)

    def priced(
        self, src: DTensorSpec, dst: DTensorSpec, steps: Sequence[tuple[tuple[int, ...], Any]]
    ) -> list[Step]:
        """Steps that somebody else planned, each (mesh dims, placement after it), with prices.

        Raises:
            ShardpropError: one of them is no move that has a price.
            _core.Unsupported: specs that the core does not model.
        """
        found, priced, _ = _core.price_steps_of(self.model(src.mesh), src, dst, steps)
        if not found:
            mesh_dims, placement = steps[len(priced)]
            raise ShardpropError(
                f"Expected steps that move the right data, got one to {placement} on mesh dims "
                f"{mesh_dims} of a plan from {src.placements} to {dst.placements} that does not."
            )
        return steps_of(priced)


def steps_of(steps: Sequence[tuple[Any, ...]]) -> list[Step]:
    """Steps as the core gives them."""
    return [
        Step(kind, mesh_dims, Layout(*before), Layout(*after), *rest)
        for kind, mesh_dims, before, after, *rest in steps
    ]


def _weighed(
    question: Question, prepared: Prepared, consumers: Sequence[DTensorSpec | None] | None
) -> list[tuple[Sequence[int], int, DTensorSpec | None]] | None:
    """The outputs whose later price counts; None where their metadata does not tell them apart."""
    meta = question.meta
    metas = [meta] if isinstance(meta, TensorMeta) else list(meta or ())
    if len(metas) != prepared.outputs or any(m is None for m in metas):
        return None
    wanted = consumers if consumers is not None else [None] * len(metas)
    if len(wanted) != len(metas):
        raise ShardpropError(
            f"{question.op}: Expected a consumer or None for each of {len(metas)} outputs, got "
            f"{len(wanted)}."
        )
    return [
        (tuple(m.shape), m.dtype.itemsize, spec)  # type: ignore[union-attr]
        for m, spec in zip(metas, wanted, strict=True)
    ]
