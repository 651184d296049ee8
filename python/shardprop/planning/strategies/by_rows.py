"""Strategies of an op whose rule lists rows for one mesh dim: the core expands them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _core
from ..._torch import DTensorSpec
from ...model.op_traits import traits_of
from ...model.placements import Placements
from ...model.question import OutputMeta, Question, is_listed
from ...propagation.core_call import Arguments, prepare
from ...rules.rule import RowsRule
from .call_template import CallTemplate
from .numbered import Numbered

__all__ = ["expand_rows"]


def expand_rows(
    call: CallTemplate, rule: RowsRule, sources: Sequence[Sequence[Placements]], kinds: list[int]
) -> Numbered:
    """Every strategy that torch's expansion keeps for some of the sources.

    Raises:
        _core.Unsupported, _core.RuleError: as `core_call.prepare` does.
        Exception: what the rule function raises.
    """
    question = call.question(rule)
    arguments = Arguments(question, rule)
    rows = _without_absent(arguments.rows(), question.meta)
    prepared = prepare(question, rule, rows, arguments, kinds=kinds)
    written = _written(question, rule, prepared.outputs)
    table, layouts = _core.strategy_table(written, sources, prepared.problem)
    return Numbered(table, prepared.outputs, layouts)


def _without_absent(rows: Sequence[Any], meta: OutputMeta) -> Sequence[Any]:
    """Rows in which an output that this call leaves out (``output_mask``) has no placement: those
    of torch 2.15 name one."""
    if not is_listed(meta) or None not in meta:
        return rows
    if any(len(row) < len(meta) for row in rows):
        return rows  # the core says what is wrong with them
    return [
        [
            None if place < len(meta) and meta[place] is None else cell
            for place, cell in enumerate(row)
        ]
        for row in rows
    ]


def _written(question: Question, rule: RowsRule, outputs: int) -> list[tuple[int, int]]:
    """Outputs that are written into operands, and so are placed like them: (output, operand)."""
    facts = traits_of(question.op)
    pairs: list[tuple[int, int]] = []
    if facts.in_place and outputs and (rule.keeps_written_in_place or rule.leaves_written):
        pairs.append((0, 0))
    for index, name in enumerate(facts.out_arguments):
        spec = question.kwargs.get(name)
        if isinstance(spec, DTensorSpec) and index < outputs:
            operand = [id(each) for each in question.operands].index(id(spec))
            pairs.append((index, operand))
    return pairs
