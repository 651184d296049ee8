"""List ops whose elements share a tensor, which can be in one place only.

The elements are decided one by one, each as if the shared tensor were moved for it alone. Where
that cannot be, or is not cheapest in all, they are decided with the shared tensor in the place that
costs least in all.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from .._torch import DTensorSpec, OpSchema, Partial
from ..metadata import output_meta
from ..model.op_traits import traits_of
from ..model.placements import Placements
from ..model.question import DECLINED, Choice, OutputMeta, Question
from ..rules.follow_rule import REPLICATE
from ..rules.kept_rows import KeptRows
from ..rules.rule import Chooser, RowsRule, Rule
from .asked import asked_of
from .list_ops import ListQuestion, is_tensor_list
from .move_costs import choice_costs

__all__ = ["may_disagree", "rule_that_agrees"]

# Places of the shared tensor that are compared.
_MOST_PLACES = 64


def may_disagree(schema: OpSchema) -> bool:
    """May the elements of a list op want a tensor that all of them share in several places? It has
    no dims to be sharded: only where something is pending."""
    if not traits_of(schema.op).is_list_op or not _shared(schema.args_schema):
        return False
    lists = (arg if is_tensor_list(arg) else [arg] for arg in schema.args_schema)
    specs = {id(x): x for arg in lists for x in arg if isinstance(x, DTensorSpec)}
    return any(isinstance(p, Partial) for spec in specs.values() for p in spec.placements)


class Agreement(NamedTuple):
    """How the elements of a list op are decided together.

    Attributes:
        rule: What to ask in the place of the rule.
        disagreed: Could what they want one by one not be had?
    """

    rule: Rule
    disagreed: bool


def rule_that_agrees(
    schema: OpSchema,
    rule: Rule,
    chooser: Chooser,
    meta_of: Callable[[OpSchema], OutputMeta] = output_meta,
) -> Agreement | None:
    """What to ask in the place of a rule by which the elements of a list op want a tensor that all
    of them share in several places; under a policy that looks for the least price also where that
    is not least for all elements together.

    None where the rule itself is to be asked. So it is, too, where it declines or raises: it will
    again.
    """
    rows = rule.as_rows
    if rows is None or not may_disagree(schema):
        return None
    try:
        with chooser.aside():
            asked = asked_of(schema, rule, meta_of)
            if not isinstance(asked, ListQuestion):
                return None
            return _Together(asked, rows, chooser, _shared(schema.args_schema)).found()
    except Exception:
        return None


class _Together:
    """The elements of a list op, for each place of what they share."""

    def __init__(
        self, asked: ListQuestion, rows: RowsRule, chooser: Chooser, shared: Sequence[int]
    ) -> None:
        self._questions = asked.questions
        self._counts = [asked.elements.group.count(g) for g in range(len(asked.questions))]
        self._rows = rows
        self._chooser = chooser
        self._shared = shared

    def found(self) -> Agreement | None:
        """See `rule_that_agrees`."""
        choices = [self._chooser.choose(each, self._rows) for each in self._questions]
        wants = [self._place(choice.operands) for choice in choices]
        agreed = all(want == wants[0] for want in wants)
        if agreed and not self._chooser.has_own_plans:
            return None
        best, least = wants[0] if agreed else None, math.inf
        if best is not None:
            least = self._price(choices)
        for place in self._places(wants):
            us = self._price_at(place)
            if us < least:
                best, least = place, us
        if agreed and best == wants[0]:
            return None
        if best is None:  # there is none; what is asked then has no strategy
            best = wants[0]
        return Agreement(_with_shared_at(self._rows, (*self._shared,), best), not agreed)

    def _place(self, layouts: Sequence[Placements]) -> tuple[Placements, ...]:
        return tuple(tuple(layouts[at]) for at in self._shared)

    def _places(self, wants: Sequence[tuple[Placements, ...]]) -> Iterator[tuple[Placements, ...]]:
        """Those of the first element first; last the one that is right for all."""
        given = self._place([spec.placements for spec in self._questions[0].operands])
        whole = tuple((REPLICATE,) * len(placements) for placements in given)
        known = [*wants, given, whole]
        per_dim = [
            [dict.fromkeys(each[k][dim] for each in known) for dim in range(len(given[k]))]
            for k in range(len(given))
        ]
        layouts = [itertools.product(*options) for options in per_dim]
        mixed = itertools.islice(itertools.product(*layouts), _MOST_PLACES)
        return iter(dict.fromkeys([*wants, *mixed, whole]))

    def _price_at(self, place: tuple[Placements, ...]) -> float:
        """Microseconds of all elements with the shared tensors in a place; ``inf`` where they
        cannot be decided so."""
        rule = _with_shared_at(self._rows, (*self._shared,), place)
        try:
            return self._price([self._chooser.choose(each, rule) for each in self._questions])
        except DECLINED:
            return math.inf

    def _price(self, choices: Sequence[Choice]) -> float:
        """Microseconds in all: what elements share is moved once."""
        with self._chooser.one_decision():
            shared = self._moves(self._questions[0], choices[0], self._shared)
            return shared + sum(
                count * self._moves(question, choice, self._own(question))
                for count, question, choice in zip(
                    self._counts, self._questions, choices, strict=True
                )
            )

    def _own(self, question: Question) -> list[int]:
        return [at for at in range(question.positional) if at not in self._shared]

    def _moves(self, question: Question, choice: Choice, operands: Sequence[int]) -> float:
        return sum(choice_costs(self._chooser, choice, question.operands, operands))


# One for each place, for decisions are known by the rule that was asked.
@functools.lru_cache(1024)
def _with_shared_at(
    rows: RowsRule, shared: tuple[int, ...], place: tuple[Placements, ...]
) -> KeptRows:
    def accepts(
        mesh: object, schema: object, operands: Sequence[DTensorSpec], output: object
    ) -> bool:
        return all(
            tuple(operands[at].placements) == placements
            for at, placements in zip(shared, place, strict=True)
        )

    return KeptRows(rows, accepts=accepts)


def _shared(args: Sequence[Any]) -> list[int]:
    """Of the operands of one element, those that all elements share."""
    operands = [arg for arg in args if isinstance(arg, DTensorSpec) or is_tensor_list(arg)]
    return [at for at, arg in enumerate(operands) if isinstance(arg, DTensorSpec)]
