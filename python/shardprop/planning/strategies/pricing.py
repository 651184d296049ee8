"""Prices between layouts, by a planner or by a function of the program's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..._torch import DeviceMesh, DTensorSpec, TensorMeta, make_spec
from ...errors import ShardpropError
from ...model.placements import Placements
from ...propagation.policy_settings import planner_for_plans
from ...redistribution.optimal_planner import ExactPlanner

__all__ = ["Pricer", "pricer_of"]


class Pricer(Protocol):
    """Prices between layouts of one tensor, each of which is given once."""

    def table(
        self,
        meta: TensorMeta,
        mesh: DeviceMesh,
        sources: Sequence[Placements],
        wanted: Sequence[Placements],
    ) -> NDArray[np.float64]:
        """Microseconds [wanted, sources]; ``inf`` where there is no way."""


class _ByPlanner:
    def __init__(self, planner: ExactPlanner) -> None:
        self._planner = planner

    def table(
        self,
        meta: TensorMeta,
        mesh: DeviceMesh,
        sources: Sequence[Placements],
        wanted: Sequence[Placements],
    ) -> NDArray[np.float64]:
        try:
            return self._planner.prices(meta, mesh, sources, wanted)
        except _core.Unsupported as reason:
            raise ShardpropError(
                f"prices: Expected layouts that the core models, got a {reason}."
            ) from None


class _ByFunction:
    """A function of the program's, asked once for each pair that one answer takes."""

    def __init__(self, price: Callable[[DTensorSpec, DTensorSpec], float]) -> None:
        self._price = price
        # Specs by what they say, and prices by pairs of these objects: to hash an int is quicker
        # than to hash placements.
        self._specs: dict[tuple[TensorMeta, Placements], DTensorSpec] = {}
        self._known: dict[tuple[int, int], float] = {}

    def table(
        self,
        meta: TensorMeta,
        mesh: DeviceMesh,
        sources: Sequence[Placements],
        wanted: Sequence[Placements],
    ) -> NDArray[np.float64]:
        from_specs = [self._spec(meta, mesh, layout) for layout in sources]
        to_specs = [self._spec(meta, mesh, layout) for layout in wanted]
        prices = [self._of_pair(src, dst) for dst in to_specs for src in from_specs]
        return np.array(prices, np.float64).reshape(len(wanted), len(sources))

    def _spec(self, meta: TensorMeta, mesh: DeviceMesh, layout: Placements) -> DTensorSpec:
        spec = self._specs.get((meta, layout))
        if spec is None:
            spec = self._specs[meta, layout] = make_spec(mesh, layout, meta)
        return spec

    def _of_pair(self, src: DTensorSpec, dst: DTensorSpec) -> float:
        pair = id(src), id(dst)
        known = self._known.get(pair)
        if known is None:
            known = self._known[pair] = self._checked(self._price(src, dst), src, dst)
        return known

    def _checked(self, price: Any, src: DTensorSpec, dst: DTensorSpec) -> float:
        if isinstance(price, bool) or not isinstance(price, (int, float)) or math.isnan(price):
            raise ShardpropError(
                f"prices: Expected a number of microseconds from {src.placements} to "
                f"{dst.placements}, got {price!r}."
            )
        return float(price)


def pricer_of(prices: Any) -> Pricer | None:
    """What `strategies` was given, as a pricer; None for none.

    Raises:
        ShardpropError: what is no planner, no function and no topology.
    """
    if prices is None:
        return None
    if isinstance(prices, ExactPlanner):
        return _ByPlanner(prices)
    if callable(prices) and not hasattr(prices, "on"):
        return _ByFunction(prices)
    return _ByPlanner(planner_for_plans(prices, None))
