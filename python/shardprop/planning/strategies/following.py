"""Strategies of an op whose outputs follow its operands: those of each source are asked in turn."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ... import _core
from ..._torch import Replicate
from ...errors import ShardpropError
from ...model.placements import Placements
from ...model.question import NoStrategyError, Question
from ...rules.follow_rule import Candidate
from ...rules.rule import Rule
from .call_template import CallTemplate
from .numbered import Numbered, numbered

__all__ = ["combinations", "follow_sources"]

# Ways to combine the sources of several operands, each of which is asked.
_MOST_COMBINATIONS = 4096


def follow_sources(
    call: CallTemplate, rule: Rule, sources: Sequence[Sequence[Placements]], outputs: int
) -> Numbered:
    """What the rule makes of every combination of the sources and then of replicated operands, each
    result once.

    Raises:
        ShardpropError: it makes nothing of any of them; the message says why of the last.
    """
    rows: list[list[Placements | None]] = []
    why: object = None
    for combination in combinations(call, sources):
        question = call.question(rule, combination)
        try:
            candidates = rule.candidates(question)
        except (_core.Unsupported, NoStrategyError, ShardpropError) as reason:
            why = reason  # no way from there
            continue
        rows += [_row(question, each, combination, outputs) for each in candidates]
    if not rows:
        raise ShardpropError(f"{call.op}: Expected a layout that its rule follows, got none: {why}")
    return numbered(rows, outputs)


def combinations(
    call: CallTemplate, sources: Sequence[Sequence[Placements]]
) -> Iterator[Sequence[Placements]]:
    """Layouts of all operands.

    Where they are too many, every source of one operand with the others like it (in so far as they
    have a source like it), which is what a rule such as that of ``cat`` brings them to anyway.
    """
    replicated = (Replicate(),) * call.mesh.ndim
    count = 1
    for layouts in sources:
        count *= len(layouts)
    if count <= _MOST_COMBINATIONS:
        yield from itertools.product(*sources)
    else:
        for layout in dict.fromkeys(itertools.chain(*sources)):
            yield [layout if layout in layouts else replicated for layouts in sources]
    yield [replicated] * len(sources)


def _row(
    question: Question, candidate: Candidate, combination: Sequence[Placements], outputs: int
) -> list[Placements | None]:
    """Layouts of outputs and operands; keyword arguments, which no rule moves, as they are."""
    of_outputs = list(candidate.outputs)
    if len(of_outputs) == 1:
        of_outputs *= outputs
    if len(of_outputs) != outputs or len(candidate.operands) > len(question.operands):
        raise _core.Unsupported("outputs and their metadata differ in number")
    rest = combination[len(candidate.operands) :]
    return [*of_outputs, *candidate.operands, *rest]
