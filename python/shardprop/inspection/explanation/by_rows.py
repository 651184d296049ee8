"""A decision among rows, laid open: the rows, the cheapest strategies, and what was dropped."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import _core
from ..._torch import DTensorSpec, Placement
from ...model.question import Choice, NoStrategyError
from ...propagation.core_call import Prepared
from ...propagation.policy import Chosen
from ...redistribution.optimal_planner import ExactPlanner
from ...rules.rule import RowsRule
from ..words import dim_names, placements_text
from .asking import Answer, ExplainedQuestion, output_names
from .model import Candidate, Row, in_places
from .reasons import Field, reason_for
from .rejections import DroppedRow, NamedRows, rejections_of
from .words import spec_text, us_text

__all__ = ["answer_by_rows"]

# Strategies that are priced one by one under policy "optimal", whose order is not the core's.
_MOST_REPRICED = 1 << 16

# By whether consumers are known.
_OUTPUTS_WEIGHED = {
    False: "What it costs to reduce outputs (output_weight)",
    True: "What outputs cost from their consumers on (consumers)",
}


class _Ranking(NamedTuple):
    """What `_core.rank` says."""

    verdict: int
    ranked: list[tuple[tuple[int, ...], tuple[Any, ...], float, list[float]]]
    valid: int
    considered: int
    refusals: list[tuple[int, int, str, int, int, tuple[int, ...]]]
    table: list[tuple[int | None, tuple[Placement | None, ...]]]
    ties: int
    turned_down: int


def answer_by_rows(asked: ExplainedQuestion, rule: RowsRule, limit: int) -> Answer:
    """The answer of a rule that lists rows.

    Raises:
        _core.Unsupported, _core.RuleError: the core declines, and torch decides.
        ShardpropError: policy ``"optimal"`` has no answer, and leaves nothing to torch.
        Exception: what the rule function raises.
    """
    decided: Chosen | None = None
    with contextlib.suppress(NoStrategyError):
        decided = asked.decide()
    prepared = asked.prepare(rule) if decided is None else decided.prepared
    planner = None if decided is None else decided.planner
    ranking = _Ranking(*_core.rank(_MOST_REPRICED if planner else limit, prepared.problem))
    rows = _rows(ranking, prepared.outputs)
    table = NamedRows(
        asked.question,
        rows,
        output_names(asked.question.op, prepared.outputs, asked.question.meta),
        asked.names,
        dim_names(prepared.mesh),
        tuple(prepared.mesh.shape),
    )
    refusals = [DroppedRow(*refusal) for refusal in ranking.refusals]
    answer = Answer(
        choice=None,
        candidates=(),
        reason="no strategy",
        why=_none(ranking),
        valid=ranking.valid,
        considered=ranking.considered,
        rows=rows,
        rejections=rejections_of(table, refusals),
        notes=_notes(ranking),
        error=f"{asked.question.op}: {_none(ranking)}",
    )
    return answer if decided is None else _with_winner(answer, asked, decided, ranking, limit)


def _with_winner(
    answer: Answer, asked: ExplainedQuestion, decided: Chosen, ranking: _Ranking, limit: int
) -> Answer:
    choice, prepared, planner, without, _ = decided
    notes = [*answer.notes]
    if planner is None:
        candidates, ties = _candidates(ranking, prepared.outputs), ranking.ties
    else:
        repriced = _repriced(asked, planner, prepared, ranking, choice)
        candidates, ties = repriced[:limit], _as_cheap_as_the_first(repriced)
    if without is not None:
        notes.append(f"Policy 'optimal' has no answer ({without}): torch's is taken.")
    if choice.gap:
        notes.append(
            f"Not proved to be the cheapest: another may be cheaper by up to {us_text(choice.gap)}."
        )
    if choice.output_cost is not None:
        notes.append(
            f"{_OUTPUTS_WEIGHED[decided.ahead]} was weighed, too; the prices of the candidates "
            "leave it out."
        )
    field = Field(
        candidates,
        valid=ranking.valid,
        ties=ties,
        operands=asked.operands[: asked.question.positional],
        dim_names=dim_names(prepared.mesh),
        prefers_still=not asked.question.is_element,
        outputs_us=choice.output_cost,
    )
    if candidates:
        reason, why = reason_for(field)
    else:
        candidates = (_of_choice(choice),)
        reason = "least cost"
        why = f"The winner costs {us_text(choice.cost)}; there are too many others to list them."
    return answer._replace(
        choice=choice,
        candidates=candidates,
        reason=reason,
        why=why,
        notes=(*notes, *_unpriced(asked, choice)),
        error=None,
    )


def _unpriced(asked: ExplainedQuestion, choice: Choice) -> tuple[str, ...]:
    """The operands for which there is no finite price."""
    return tuple(
        f"There is no finite price for `{name}` from {spec_text(spec)} to "
        f"{placements_text(wanted)}{_why_unpriced(spec)}."
        for name, spec, wanted, price in zip(
            asked.names, asked.operands, choice.operands, choice.operand_costs, strict=False
        )
        if math.isinf(price)
    )


def _why_unpriced(spec: DTensorSpec) -> str:
    if spec.shard_order is not None:
        return ""
    return ": its strided shards stand for a shard order, and torch prices no move of such a tensor"


def _rows(ranking: _Ranking, outputs: int) -> tuple[Row, ...]:
    return tuple(
        Row(number, source, cells[:outputs], cells[outputs:])  # type: ignore[arg-type]
        for number, (source, cells) in enumerate(ranking.table)
    )


def _candidates(ranking: _Ranking, outputs: int) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(place, rows, cells[:outputs], cells[outputs:], tuple(each), cost)
        for place, (rows, cells, cost, each) in enumerate(ranking.ranked)
    )


def _of_choice(choice: Choice) -> Candidate:
    return Candidate(
        0, None, choice.outputs, choice.operands, tuple(choice.operand_costs), choice.cost
    )


def _repriced(
    asked: ExplainedQuestion,
    planner: ExactPlanner,
    prepared: Prepared,
    ranking: _Ranking,
    choice: Choice,
) -> tuple[Candidate, ...]:
    """The strategies by the prices of exact plans; the winner, which the core has chosen, first."""
    if ranking.valid > len(ranking.ranked):
        return ()
    maker = asked.spec_maker()
    known: dict[tuple[int, tuple[Placement, ...]], float] = {}

    def price(operand: int, wanted: tuple[Placement, ...]) -> float:
        key = operand, wanted
        if key not in known:
            spec = asked.operands[operand]
            pinned = operand in prepared.pinned and spec.mesh != prepared.mesh
            target = maker.make(prepared.mesh, wanted, spec.tensor_meta)
            known[key] = 0.0 if pinned else planner.price(spec, target).us
        return known[key]

    found = []
    for rows, cells, _, _ in ranking.ranked:
        operands = cells[prepared.outputs :]
        costs = tuple(price(index, wanted) for index, wanted in enumerate(operands))
        found.append(Candidate(0, rows, cells[: prepared.outputs], operands, costs, sum(costs)))
    chosen = (choice.outputs, choice.operands)
    # Prices are whole picoseconds to the core; what is equal there must not differ here.
    found.sort(key=lambda c: ((c.outputs, c.operands) != chosen, _picoseconds(c.us), c.rows or ()))
    return in_places(found)


def _as_cheap_as_the_first(candidates: Sequence[Candidate]) -> int:
    return sum(_picoseconds(c.us) == _picoseconds(candidates[0].us) for c in candidates)


def _picoseconds(us: float) -> float:
    return us if math.isinf(us) else round(us * 1e6)


def _none(ranking: _Ranking) -> str:
    if ranking.verdict == _core.Verdict.UNREACHABLE:
        return "torch's planner finds no path from where the operands are."
    return (
        f"No strategy is valid: of {ranking.considered} combinations of rows every one was dropped "
        "by a filter."
    )


def _notes(ranking: _Ranking) -> tuple[str, ...]:
    if not ranking.turned_down:
        return ()
    return (
        f"{ranking.turned_down} combinations of rows were turned down as a whole, by a filter of "
        "the rule or by what it asks of sizes.",
    )
