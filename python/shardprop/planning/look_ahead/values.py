"""What a layout of an output costs at its consumers, and what theirs costs at the next.

With V_0 = 0, the price of the layouts of an output some ops ahead is, summed over its uses,

    V_h(layout) = min over strategies of the consumer of
                  prices of its operands, the output being in that layout, + V_(h-1) of its outputs

where its other operands come from the layouts that they had or, if an op makes them, from those
that suit the strategy best: they are decided likewise. All layouts of an output are priced at once,
and the strategies of a consumer found once, so that to look further ahead costs little.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence

import numpy as np

from ..._torch import DeviceMesh, Replicate, TensorMeta, is_partial
from ...model.placements import Placements
from ...model.question import Question, metas_of
from ...propagation.output_prices import LaterPrice
from ...redistribution.optimal_planner import ExactPlanner
from ...support.cache import BoundedMap
from .computing import Computing
from .consumers import Consumers, Use, call_key
from .layouts import Prices, layouts, too_many, values_at
from .uses import UseStrategies, strategies_of_use

__all__ = ["Ahead"]

# More than a model of a thousand ops has, eight ops ahead: what has to be found out anew asks for
# much of the rest. On a mesh of two dims values of a matrix take 300 bytes, of the most layouts 32
# KiB; the strategies of its consumers some 10 KiB.
_VALUES_HELD = 1 << 15
_USES_HELD = 1 << 12


class Ahead:
    """Prices of outputs at what consumes them.

    Args:
        consumers: Who consumes them.
        planner: Prices what is moved.
        rules: As `strategies` takes it.
        horizon: How many ops ahead is looked, 1 and more.

    Attributes:
        settings: See `OutputPrices`.
    """

    def __init__(
        self, consumers: Consumers, planner: ExactPlanner, rules: str, horizon: int
    ) -> None:
        self._consumers = consumers
        self._planner = planner
        self._computing = Computing(planner.topology)
        self._rules = rules
        self._horizon = horizon
        self.settings: tuple[object, ...] = (id(consumers), horizon)
        # By the cost model, which a mesh changes with its groups. A use is held beside what is
        # known of it, so that its number stays its own.
        self._values: BoundedMap[Prices] = BoundedMap("prices of outputs", _VALUES_HELD)
        self._strategies: BoundedMap[tuple[Use, UseStrategies | None]] = BoundedMap(
            "strategies of consumers", _USES_HELD
        )

    def of(self, question: Question) -> list[LaterPrice] | None:
        """What the layouts of each output cost later; None where nothing is known of any."""
        metas = [meta for meta in metas_of(question.meta) if meta is not None]
        if question.is_element or len(metas) != len(metas_of(question.meta)):
            return None
        call = call_key(question.op, question.args, question.kwargs)
        if call is None or not self._consumers.knows(call, len(metas)):
            return None
        mesh = question.mesh or question.operands[0].mesh
        if any(too_many(mesh.ndim, len(meta.shape)) for meta in metas):
            return None

        def price(
            output: int,
            meta: TensorMeta,
            placements: Placements | None,
            strategy: Sequence[Placements | None],
        ) -> float:
            later = 0.0  # of an output that has no placements
            if placements is not None:
                values = self._of_output(call, output, meta, mesh, self._horizon)
                later = float(values_at(values, mesh, meta, [placements])[0])
            # What the op itself computes counts once, with its first output.
            return (
                later if output else later + self._computing.of_question(question, mesh, strategy)
            )

        return [functools.partial(price, output, meta) for output, meta in enumerate(metas)]

    def _of_output(
        self, call: Hashable, output: int, meta: TensorMeta, mesh: DeviceMesh, horizon: int
    ) -> Prices:
        """What each of `layouts` of an output costs later."""
        key = self._planner.models.of(mesh), call, output, horizon
        known = self._values.get(key)
        if known is None:
            known = np.zeros(len(layouts(mesh.ndim, len(meta.shape))))
            for use, share in self._consumers.of(call, output):
                known = known + share * self._of_use(use, meta, mesh, horizon)
            if not np.isfinite(known).any():  # what ran did run: the core cannot tell how
                known = np.zeros(len(known))
            self._values.put(key, known)
        return known

    def _of_use(self, use: Use, meta: TensorMeta, mesh: DeviceMesh, horizon: int) -> Prices:
        every = layouts(mesh.ndim, len(meta.shape))
        if use.op is None:
            moved: Prices = self._planner.prices(meta, mesh, every, [use.args[0].placements])[0]
            return moved
        found = self._strategies_of(use, mesh)
        if found is None:  # not for the core to say: what is pending has to be reduced all the same
            return self._reduced(meta, mesh)
        prices = found.prices
        if horizon > 1:
            for output, made, placements in found.outputs:
                if too_many(mesh.ndim, len(made.shape)):
                    continue
                values = self._of_output(found.call, output, made, mesh, horizon - 1)
                prices = prices + values_at(values, mesh, made, placements)[:, None]
        least: Prices = prices.min(axis=0)
        return least

    def _reduced(self, meta: TensorMeta, mesh: DeviceMesh) -> Prices:
        """What it costs to reduce what is pending in each of `layouts`."""
        prices = []
        for layout in layouts(mesh.ndim, len(meta.shape)):
            whole = tuple(Replicate() if is_partial(p) else p for p in layout)
            is_whole = whole == layout
            moved = 0.0 if is_whole else self._planner.prices(meta, mesh, [layout], [whole])[0, 0]
            prices.append(float(moved))
        return np.array(prices)

    def _strategies_of(self, use: Use, mesh: DeviceMesh) -> UseStrategies | None:
        key = self._planner.models.of(mesh), id(use)
        known = self._strategies.get(key)
        if known is None:
            found = strategies_of_use(use, mesh, self._planner, self._computing, self._rules)
            known = use, found
            self._strategies.put(key, known)
        return known[1]
