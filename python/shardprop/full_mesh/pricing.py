"""Prices between layouts, by a planner or by a function of the program's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._torch import DeviceMesh, DTensorSpec, TensorMeta
from ..errors import ShardpropError
from ..exact import ExactPlanner
from ..policy_settings import planner_for_plans
from ..specs import make_spec
from .given import Layout

__all__ = ["Pricer", "pricer_of"]


class Pricer(Protocol):
    """Prices between layouts of one tensor, each of which is given once."""

    def table(
        self,
        meta: TensorMeta,
        mesh: DeviceMesh,
        sources: Sequence[Layout],
        wanted: Sequence[Layout],
    ) -> NDArray[np.float64]:
        """Microseconds [wanted, sources]; ``inf`` where there is no way."""


class _ByPlanner:
    def __init__(self, planner: ExactPlanner) -> None:
        self._planner = planner

    def table(
        self,
        meta: TensorMeta,
        mesh: DeviceMesh,
        sources: Sequence[Layout],
        wanted: Sequence[Layout],
    ) -> NDArray[np.float64]:
        try:
            return self._planner.prices(meta, mesh, sources, wanted)
        except _core.Unsupported as reason:
            raise ShardpropError(
                f"prices: Expected layouts that the core models, got a {reason}."
            ) from None


class _ByFunction:
    def __init__(self, price: Callable[[DTensorSpec, DTensorSpec], float]) -> None:
        self._price = price

    def table(
        self,
        meta: TensorMeta,
        mesh: DeviceMesh,
        sources: Sequence[Layout],
        wanted: Sequence[Layout],
    ) -> NDArray[np.float64]:
        from_specs = [make_spec(mesh, layout, meta) for layout in sources]
        to_specs = [make_spec(mesh, layout, meta) for layout in wanted]
        prices = np.empty((len(wanted), len(sources)), np.float64)
        for row, dst in enumerate(to_specs):
            for column, src in enumerate(from_specs):
                prices[row, column] = self._checked(self._price(src, dst), src, dst)
        return prices

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
