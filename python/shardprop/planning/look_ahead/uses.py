"""The strategies of an op that takes an output, with prices."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from ... import _core, _torch
from ..._torch import DeviceMesh, DTensorSpec, TensorMeta
from ...errors import ShardpropError
from ...model.placements import Placements
from ...propagation.op_call import placed_arguments
from ...redistribution.optimal_planner import ExactPlanner
from ..strategies import strategies
from .computing import Computing, with_metas
from .consumers import Use, call_key
from .layouts import Prices, layouts, too_many

__all__ = ["UseStrategies", "strategies_of_use"]


class UseStrategies(NamedTuple):
    """The ways in which a consumer runs.

    Attributes:
        call: The consumer.
        prices: Microseconds to bring its operands there and to compute [strategies, `layouts` of
            the output].
        outputs: Its own outputs that have placements: which one, its metadata, and its layout in
            each strategy.
    """

    call: Hashable
    prices: Prices
    outputs: list[tuple[int, TensorMeta, list[Placements]]]


def strategies_of_use(
    use: Use, mesh: DeviceMesh, planner: ExactPlanner, computing: Computing, rules: str
) -> UseStrategies | None:
    """The strategies of a consumer; None where the core cannot say, or there are too many layouts.

    Args:
        use: Of an output by an op.
        mesh: Where that is.
        planner: Prices what is moved.
        computing: Prices what is computed.
        rules: As `strategies` takes it.
    """
    assert use.op is not None
    leaves = _torch.tree_leaves((use.args, use.kwargs))
    specs = [(at, leaf) for at, leaf in enumerate(leaves) if isinstance(leaf, DTensorSpec)]
    if any(too_many(mesh.ndim, len(spec.shape)) for _, spec in specs):
        return None
    args, kwargs = with_metas((use.args, dict(use.kwargs)))
    sources = [
        layouts(mesh.ndim, len(spec.shape))
        if at in (*use.operands, *use.made)
        else [tuple(spec.placements)]
        for at, spec in specs
    ]
    try:
        found = strategies(
            use.op,
            args,
            kwargs,
            mesh=mesh,
            sources=sources,
            prices=planner,
            strided=False,
            rules=rules,
        )
        call = call_key(use.op, *placed_arguments(use.op, use.args, use.kwargs))
    except (ShardpropError, _core.Unsupported, RuntimeError):
        return None
    prices = found.prices
    if call is None or prices is None or not len(found) or len(prices) != len(specs):
        return None
    total: Prices = np.zeros((len(found), 1))
    for (at, _), each in zip(specs, prices, strict=True):
        # Of another operand there is one price for all layouts of the output: from where it is, or,
        # where an op makes it, from where that had best leave it.
        total = total + (each if at in use.operands else each.min(axis=1, keepdims=True))
    total = total + np.reshape(computing.of_strategies(found, args, kwargs), (-1, 1))
    outputs = [
        (output, meta, [found.layouts[number] for number in numbers])
        for output, (meta, numbers) in enumerate(
            zip(found.output_metas, found.outputs.T.tolist(), strict=True)
        )
        if meta is not None and min(numbers) >= 0
    ]
    return UseStrategies(call, total, outputs)
