"""List ops whose elements share a tensor, but do not want it in one place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .._torch import DTensorSpec, OpOverload, OpSchema
from ..metadata import output_meta
from ..model.op_traits import traits_of
from ..model.question import OutputMeta
from ..rules.follow_rule import REPLICATE
from ..rules.kept_rows import KeptRows, RowCall
from ..rules.rule import Chooser, RowsRule, Rule
from .asked import asked_of
from .list_ops import is_tensor_list

__all__ = ["rule_that_agrees"]

# With each the rule that it was made of: torch, or a program, may give the op another.
_agreeing: dict[OpOverload, tuple[RowsRule, KeptRows]] = {}


def rule_that_agrees(
    schema: OpSchema,
    rule: Rule,
    chooser: Chooser,
    meta_of: Callable[[OpSchema], OutputMeta] = output_meta,
) -> Rule | None:
    """What to ask in the place of a rule by which the elements of a list op do not agree where they
    want a tensor that all of them share.

    None where they agree. So it is, too, where the rule declines or raises: it will again.
    """
    if not traits_of(schema.op).is_list_op or not (shared := _shared(schema.args_schema)):
        return None
    rows = rule.as_rows
    if rows is None:
        return None
    try:
        questions = asked_of(schema, rule, meta_of).questions
        wanted = [rule.choose(question, chooser).operands for question in questions]
    except Exception:
        return None
    if all(operands[at] == wanted[0][at] for operands in wanted[1:] for at in shared):
        return None
    of, agreeing = _agreeing.get(schema.op, (None, None))
    if of is not rows or agreeing is None:
        agreeing = KeptRows(rows, keeps=partial(_replicates, shared))
        _agreeing[schema.op] = rows, agreeing
    return agreeing


def _shared(args: Sequence[Any]) -> list[int]:
    """Of the operands of one element, those that all elements share."""
    operands = [arg for arg in args if isinstance(arg, DTensorSpec) or is_tensor_list(arg)]
    return [at for at, arg in enumerate(operands) if isinstance(arg, DTensorSpec)]


def _replicates(operands: Sequence[int], row: Sequence[Any], call: RowCall) -> bool:
    """Does a row have these operands replicated?"""
    cells = call.operands_of(row)
    return all(cells[at] == REPLICATE for at in operands)
