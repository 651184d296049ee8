"""The questions that one op puts, and their answers as torch's dispatcher executes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from .._torch import OpSchema, OutputSharding
from ..metadata import output_meta
from ..model.question import Choice, OutputMeta, Placed, Question
from ..rules.rule import Rule
from .answer import output_sharding
from .list_ops import ListQuestion, is_list_op

__all__ = ["Asked", "asked_of"]


class Asked(Protocol):
    """What one op asks."""

    @property
    def questions(self) -> Sequence[Question]:
        """One; of a list op one for each kind of element."""

    def sharding(self, choices: Sequence[Choice]) -> OutputSharding:
        """The decision of the op, from the choices of its questions.

        Raises:
            _core.Unsupported: outputs and metadata do not fit; torch words that error.
        """

    def placed(self, choices: Sequence[Choice]) -> Placed:
        """Where the choices want each operand, lists flattened."""


class OpQuestion:
    """An op that is decided as a whole."""

    __slots__ = ("_schema", "questions")

    def __init__(
        self, schema: OpSchema, rule: Rule, meta_of: Callable[[OpSchema], OutputMeta]
    ) -> None:
        self._schema = schema
        self.questions = (rule.question(schema, meta_of(schema)),)

    def sharding(self, choices: Sequence[Choice]) -> OutputSharding:
        """See `Asked.sharding`."""
        return output_sharding(self._schema, self.questions[0], choices[0])

    def placed(self, choices: Sequence[Choice]) -> Placed:
        """See `Asked.placed`."""
        choice = choices[0]
        # Keyword arguments: torch does not move them, and rules that follow do not place them.
        rest = self.questions[0].operands[len(choice.operands) :]
        operands = (*choice.operands, *(tuple(spec.placements) for spec in rest))
        free = (0.0,) * (len(operands) - len(choice.operand_costs))
        return Placed(operands, (*choice.operand_costs, *free), choice.cost)


def asked_of(
    schema: OpSchema, rule: Rule, meta_of: Callable[[OpSchema], OutputMeta] = output_meta
) -> Asked:
    """What an op asks, element by element where that is how `rule` decides list ops.

    Raises:
        _core.Unsupported: lists that do not go together.
        Exception: what torch raises while it computes the outputs' metadata (`meta_of`).
    """
    if rule.by_element and is_list_op(schema):
        return ListQuestion(schema, rule, meta_of)
    return OpQuestion(schema, rule, meta_of)
