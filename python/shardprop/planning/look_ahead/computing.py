"""What an op computes on the shards of a strategy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _torch
from ..._torch import DeviceMesh, DTensorSpec, Replicate
from ...cost.compute import ComputeCost
from ...cost.topology import CostSource
from ...errors import ShardpropError
from ...model.placements import Placements
from ...model.question import Question, metas_of
from ..strategies import Strategies
from ..strategies.local_shapes import largest_shards
from .layouts import Prices

__all__ = ["Computing", "with_metas"]


class Computing:
    """Prices of what ops compute; nothing where the topology does not say how fast that goes, or
    the work of an op is not known.

    Args:
        topology: What collectives and local work cost.
    """

    def __init__(self, topology: CostSource) -> None:
        self._cost: ComputeCost | None
        try:
            self._cost = ComputeCost(topology)
        except ShardpropError:  # it has no compute part
            self._cost = None

    def of_strategies(self, found: Strategies, args: Any, kwargs: Any) -> Prices | float:
        """Microseconds [strategies] of an op with these arguments, metadata in place of tensors."""
        if self._cost is None:
            return 0.0
        metas = found.output_metas
        try:
            return self._cost.over(
                *(found.op, args, kwargs, *found.local_shapes()),
                outputs=metas[0] if len(metas) == 1 else metas,
            )
        except ShardpropError:
            return 0.0

    def of_question(
        self, question: Question, mesh: DeviceMesh, strategy: Sequence[Placements | None]
    ) -> float:
        """Microseconds of the op that is asked about, under one strategy: placements of outputs
        (None of one without a spec), then of operands."""
        metas = metas_of(question.meta)
        tensors = [*metas, *(spec.tensor_meta for spec in question.operands)]
        if self._cost is None or len(tensors) != len(strategy):
            return 0.0
        shapes = [
            largest_shards(meta.shape, mesh.shape, [placements or (Replicate(),) * mesh.ndim])
            for meta, placements in zip(tensors, strategy, strict=True)
            if meta is not None
        ]
        args, kwargs = with_metas((question.args, question.kwargs))
        try:
            us = self._cost.over(
                *(question.op, args, kwargs, shapes[len(metas) :], shapes[: len(metas)]),
                outputs=question.meta,
            )
        except ShardpropError:
            return 0.0
        return float(us[0])


def with_metas(arguments: Any) -> Any:
    """Arguments with metadata in the place of specs."""
    return _torch.tree_map(
        lambda value: value.tensor_meta if isinstance(value, DTensorSpec) else value, arguments
    )
