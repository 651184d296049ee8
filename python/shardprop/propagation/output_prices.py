"""The cheapest choice of an op under one cost model, and the outputs whose later price counts
with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from .. import _core
from .._torch import DTensorSpec
from ..errors import ShardpropError
from ..model.placements import Placements
from ..model.question import Choice, Question, metas_of
from ..model.spec_checks import check_consumers
from ..redistribution.optimal_planner import ExactPlanner
from .core_call import Prepared, chosen

__all__ = [
    "KnownConsumers",
    "LaterPrice",
    "NotReached",
    "OutputPrices",
    "PricedOutput",
    "choose_cheapest",
    "priced_outputs",
]

# Microseconds that a layout of one output costs later, given all placements of the strategy; those
# of an output without a spec are None.
LaterPrice = Callable[[Placements | None, Sequence[Placements | None]], float]
# Shape, bytes of an element, and what comes later: what its consumer wants, what its layouts cost
# there, or None for the nearest layout without a partial.
PricedOutput = tuple[Sequence[int], int, DTensorSpec | LaterPrice | None]


class OutputPrices(Protocol):
    """Knows what outputs cost later.

    Attributes:
        settings: What that depends on beside a planner's; equal where it is the same.
    """

    settings: tuple[object, ...]

    def of(self, question: Question) -> list[LaterPrice] | None:
        """What the layouts of each output cost later; None where nothing is known of any."""


@runtime_checkable
class KnownConsumers(Protocol):
    """Knows who consumes outputs: what `watch_consumers` gives."""

    def ahead(self, planner: ExactPlanner, rules: str, horizon: int) -> OutputPrices:
        """What outputs cost, so many ops ahead."""


class NotReached(_core.Unsupported):
    """No plans lead to any strategy."""


def choose_cheapest(
    planner: ExactPlanner,
    question: Question,
    prepared: Prepared,
    consumers: Sequence[DTensorSpec | None] | None = None,
    output_weight: float | None = None,
    later: Sequence[LaterPrice] | None = None,
) -> Choice:
    """The choice of least total price; or, where the proof would take too long, one that states by
    how much another may be cheaper, and that is no dearer than the one with the least price of
    torch's.

    Args:
        planner: Prices each operand's cheapest plan.
        question: What is asked.
        prepared: It, as the core is asked.
        consumers: Per output the spec that its known consumer wants, or None; None where no
            consumer is known.
        output_weight: Instead of the planner's.
        later: Per output what its layouts cost later, all of which counts. None: nothing is known.

    Raises:
        NotReached: no plans lead to any strategy.
        _core.Unsupported: the core does not handle this; its text is the reason.
        NoStrategyError: there is nothing to choose, and torch would raise.
        ShardpropError: the topology does not fit the mesh, or consumers not the outputs.
    """
    weight = planner.output_weight if output_weight is None else output_weight
    if later is not None:
        weight = 1.0
    priced = priced_outputs(question, prepared, consumers, later) if weight else None
    found, output_cost, gap = _core.decide_exactly(
        planner.models.of(prepared.mesh),
        planner.limit_bytes,
        weight if priced is not None else 0.0,
        priced,
        prepared.problem,
    )
    if found[0] == _core.Verdict.UNREACHABLE and later is not None:
        # No output that the op can make can be brought to its consumers within the limit.
        return choose_cheapest(planner, question, prepared, consumers, output_weight)
    if found[0] == _core.Verdict.UNREACHABLE:
        raise NotReached("no plan reaches any strategy")
    return chosen(prepared, *found)._replace(
        output_cost=None if priced is None else output_cost, gap=gap
    )


def priced_outputs(
    question: Question,
    prepared: Prepared,
    consumers: Sequence[DTensorSpec | None] | None,
    later: Sequence[LaterPrice] | None = None,
) -> list[PricedOutput] | None:
    """Each output with what its consumer wants, or what it costs later; both are None where
    nothing is known.

    None where some output is absent, or the op's metadata does not tell the outputs apart.

    Raises:
        ShardpropError: `consumers` are given and do not fit the outputs, or these cannot be told
            apart.
    """
    metas = metas_of(question.meta)
    present = [each for each in metas if each is not None]
    if len(metas) != prepared.outputs or len(present) != len(metas):
        if consumers is None:
            return None
        raise ShardpropError(
            f"{question.op}: Expected an op all of whose {prepared.outputs} outputs are there, to "
            f"weigh what their consumers want, got {len(present)} with metadata."
        )
    wanted: Sequence[DTensorSpec | LaterPrice | None] = later or [None] * len(present)
    if consumers is not None:
        check_consumers(question.op, consumers, prepared.mesh, [each.shape for each in present])
        wanted = consumers
    return [
        (tuple(each.shape), each.dtype.itemsize, spec)
        for each, spec in zip(present, wanted, strict=True)
    ]
