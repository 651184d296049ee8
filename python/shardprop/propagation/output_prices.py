"""The cheapest choice of an op under one cost model, and the outputs whose later price counts
with it."""

from __future__ import annotations

from collections.abc import Sequence

from .. import _core
from .._torch import DTensorSpec
from ..errors import ShardpropError
from ..model.question import Choice, Question, metas_of
from ..model.spec_checks import check_consumers
from ..redistribution.optimal_planner import ExactPlanner
from .core_call import Prepared, chosen

__all__ = ["NotReached", "PricedOutput", "choose_cheapest", "priced_outputs"]

# Shape, bytes of an element, and what its consumer wants: None for the nearest without a partial.
PricedOutput = tuple[Sequence[int], int, DTensorSpec | None]


class NotReached(_core.Unsupported):
    """No plans lead to any strategy."""


def choose_cheapest(
    planner: ExactPlanner,
    question: Question,
    prepared: Prepared,
    consumers: Sequence[DTensorSpec | None] | None = None,
    output_weight: float | None = None,
) -> Choice:
    """The choice of least total price.

    Args:
        planner: Prices each operand's cheapest plan.
        question: What is asked.
        prepared: It, as the core is asked.
        consumers: Per output the spec that its known consumer wants, or None; None where no
            consumer is known.
        output_weight: Instead of the planner's.

    Raises:
        NotReached: no plans lead to any strategy.
        _core.Unsupported: the core does not handle this; its text is the reason.
        NoStrategyError: there is nothing to choose, and torch would raise.
        ShardpropError: the topology does not fit the mesh, or consumers not the outputs.
    """
    weight = planner.output_weight if output_weight is None else output_weight
    priced = priced_outputs(question, prepared, consumers) if weight else None
    found, later = _core.decide_exactly(
        planner.models.of(prepared.mesh),
        planner.limit_bytes,
        weight if priced is not None else 0.0,
        priced,
        prepared.problem,
    )
    if found[0] == _core.Verdict.UNREACHABLE:
        raise NotReached("no plan reaches any strategy")
    return chosen(prepared, *found)._replace(output_cost=later, minds_order=True)


def priced_outputs(
    question: Question, prepared: Prepared, consumers: Sequence[DTensorSpec | None] | None
) -> list[PricedOutput] | None:
    """Each output with what its consumer wants; `consumers` is None where they are not known.

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
    if consumers is None:
        wanted: Sequence[DTensorSpec | None] = [None] * len(present)
    else:
        check_consumers(question.op, consumers, prepared.mesh, [each.shape for each in present])
        wanted = consumers
    return [
        (tuple(each.shape), each.dtype.itemsize, spec)
        for each, spec in zip(present, wanted, strict=True)
    ]
