"""Microseconds of an op on one device, under a topology."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ShardpropError
from ...support.cache import BoundedMap
from ..cost_model import Price
from ..topology import PRESETS, CostSource, Topology, load_topology
from ..topology.links import us_per_byte
from .call import Call, bind
from .rows import Rows
from .work import Work, checked_op, key_of, work_in

__all__ = ["ComputeCost"]

_PRICES_HELD = 16_384


class ComputeCost:
    """What ops cost on one device: a launch, and the longer of computing and moving bytes.

    ``kernel_us + max(flops / (peak * efficiency), bytes / memory bandwidth)``, and nothing for
    views. A roofline (Williams, Waterman and Patterson, "Roofline: an insightful visual performance
    model for multicore architectures", CACM 52(4), 2009): a bound from below, as good as the peak
    and the efficiency that the topology states.

    Safe to use from several threads.

    Args:
        topology: As `shardprop.enable` takes it, with a `compute` part.

    Raises:
        ShardpropError: as `load_topology`; or the topology does not say how fast devices compute.
    """

    def __init__(
        self, topology: str | PathLike[str] | Mapping[str, Any] | CostSource | Price
    ) -> None:
        source = load_topology(topology)
        compute = source.compute if isinstance(source, Topology) else None
        if not isinstance(source, Topology) or compute is None:
            having = [n for n, t in PRESETS.items() if isinstance(t, Topology) and t.compute]
            name = getattr(source, "name", "") or type(source).__name__
            raise ShardpropError(
                f"topology {name}: Expected a compute part, without which no op has a price, got "
                'none. Add one such as "compute": {"peak_tflops": {"float32": 19.5}}, or take a '
                f"preset that has one: {', '.join(having)}."
            )
        self._compute = compute
        self._kernel_us = source.memory.kernel_us
        self._us_per_byte = us_per_byte(source.memory.bandwidth_gb_s)
        self._prices: BoundedMap[float] = BoundedMap("op prices", _PRICES_HELD)

    def us(
        self,
        op: object,
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None = None,
        outputs: object = None,
    ) -> float:
        """Microseconds of one call.

        Args:
            op: An OpOverload, or ``operator.getitem``.
            args: Its arguments, with ``TensorMeta(shape, stride, dtype)`` of local tensors.
            kwargs: Likewise.
            outputs: TensorMeta, a sequence of TensorMeta or None, or None: those of this device.

        Raises:
            ShardpropError: as `work_of`.
        """
        known = checked_op(op)
        if known is None:
            return 0.0
        return self._cached_price(bind(known, args, kwargs or {}, outputs))

    def over(
        self,
        op: object,
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None,
        operand_shapes: Sequence[NDArray[np.integer[Any]]],
        output_shapes: Sequence[NDArray[np.integer[Any]] | None],
        *,
        outputs: object = None,
    ) -> NDArray[np.float64]:
        """Microseconds of S calls that differ in their local shapes; each distinct one is priced
        once.

        Args:
            op: As for `us`.
            args: As for `us`; of the tensors only dtype, and which dims have stride 0, are used.
            kwargs: Likewise.
            operand_shapes: For each tensor of args, then of kwargs, in order: [S, ndim] integers.
            output_shapes: For each output [S, ndim] integers, None where it is absent.
            outputs: As for `us`, for their dtypes; left out, they have that of the first operand.

        Returns:
            [S], microseconds.

        Raises:
            ShardpropError: as `us`; or the arrays are not of these shapes.
        """
        rows = Rows(op, operand_shapes, output_shapes)
        known = checked_op(op)
        if known is None:
            return np.zeros(rows.count)
        bound = bind(known, args, kwargs or {}, outputs)
        call = rows.fit(bound, outputs_given=outputs is not None)
        prices = [self._cached_price(call.with_shapes(*shapes)) for shapes in rows.distinct()]
        return np.asarray(prices, dtype=np.float64)[rows.which]

    def _cached_price(self, call: Call) -> float:
        key = key_of(call)
        price = self._prices.get(key)
        if price is None:
            price = self._price(work_in(call))
            self._prices.put(key, price)
        return price

    def _price(self, work: Work) -> float:
        if work.kernels == 0:
            return 0.0
        computing = 0.0
        if work.dtype is not None:
            computing = work.flops / self._compute.flops_per_us(work.dtype)
        return self._kernel_us + max(computing, work.bytes * self._us_per_byte)
