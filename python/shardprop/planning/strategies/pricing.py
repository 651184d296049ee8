"""Prices between layouts, by a planner or by a function of the program's."""

from __future__ import annotations

import itertools
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
        self._known: dict[tuple[TensorMeta, Placements, Placements], float] = {}

    def table(
        self,
        meta: TensorMeta,
        mesh: DeviceMesh,
        sources: Sequence[Placements],
        wanted: Sequence[Placements],
    ) -> NDArray[np.float64]:
        prices = np.empty((len(wanted), len(sources)), np.float64)
        for (row, target), (column, source) in itertools.product(
            enumerate(wanted), enumerate(sources)
        ):
            prices[row, column] = self._of_pair(meta, mesh, source, target)
        return prices

    def _of_pair(
        self, meta: TensorMeta, mesh: DeviceMesh, source: Placements, target: Placements
    ) -> float:
        key = meta, source, target
        known = self._known.get(key)
        if known is None:
            src, dst = make_spec(mesh, source, meta), make_spec(mesh, target, meta)
            known = self._known[key] = self._checked(self._price(src, dst), src, dst)
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
