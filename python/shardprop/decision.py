"""The decision of one op by its rule: the questions that it puts, and the answers as torch's
dispatcher executes them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from . import _core, _torch, registry
from ._torch import OpSchema, OutputSharding
from .lists import ListQuestion, is_list_op
from .logs import declined_inside
from .metadata import output_meta
from .outputs import output_sharding
from .question import Choice, NoStrategyError, OutputMeta, Placed, Question
from .route import Route, Who, decomposer, route
from .rules.rule import Chooser, Rule

__all__ = ["DECLINED", "Asked", "asked_of", "decide", "decide_by_torch", "read_out"]

# What the core leaves an op to torch for.
DECLINED = (_core.Unsupported, _core.RuleError, NoStrategyError)


class Asked(Protocol):
    """What one op asks."""

    @property
    def questions(self) -> Sequence[Question]:
        """One; of a list op one for each kind of element."""

    def decide(self, rule: Rule, chooser: Chooser) -> OutputSharding:
        """The decision of the op; raises what `Rule.choose` and `sharding` do."""

    def sharding(self, choices: Sequence[Choice]) -> OutputSharding:
        """The decision of the op, from the choices of its questions.

        Raises:
            _core.Unsupported: outputs and metadata do not fit; torch words that error.
        """

    def placed(self, choices: Sequence[Choice]) -> Placed:
        """Where the choices put each output and operand, lists flattened."""


class OpQuestion:
    """An op that is decided as a whole."""

    __slots__ = ("_schema", "questions")

    def __init__(
        self, schema: OpSchema, rule: Rule, meta_of: Callable[[OpSchema], OutputMeta]
    ) -> None:
        self._schema = schema
        self.questions = (rule.question(schema, meta_of(schema)),)

    def decide(self, rule: Rule, chooser: Chooser) -> OutputSharding:
        """See `Asked.decide`."""
        question = self.questions[0]
        return output_sharding(self._schema, question, rule.choose(question, chooser))

    def sharding(self, choices: Sequence[Choice]) -> OutputSharding:
        """See `Asked.sharding`."""
        return output_sharding(self._schema, self.questions[0], choices[0])

    def placed(self, choices: Sequence[Choice]) -> Placed:
        """See `Asked.placed`."""
        choice = choices[0]
        return Placed(choice.outputs, choice.operands, tuple(choice.operand_costs), choice.cost)


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


def decide(
    schema: OpSchema,
    rule: Rule,
    terms: Chooser,
    meta_of: Callable[[OpSchema], OutputMeta] = output_meta,
) -> OutputSharding:
    """The core's decision.

    Raises:
        _core.Unsupported, _core.RuleError, NoStrategyError: the core leaves it to torch.
        Exception: as `asked_of` does, and what the rule function raises.
    """
    return asked_of(schema, rule, meta_of).decide(rule, terms)


def read_out(schema: OpSchema) -> OutputSharding:
    """The decision of an op that reads a number out: nothing is placed, nothing moves."""
    return OutputSharding(None, schema)


def decide_by_torch(schema: OpSchema, found: Route, terms: Chooser) -> OutputSharding:
    """The decision of torch's own code. Its error, where it knows no way at all, is told the way to
    a rule (a note, which Python 3.10 has none of).

    Raises:
        Exception: torch refuses the op.
    """
    with terms.one_decision():
        try:
            return _torch.torch_propagate(schema)
        except NotImplementedError as error:
            unknown = found.rule is None and found.way is registry.TorchsWay.DECOMPOSITION
            if unknown and sys.version_info >= (3, 11):
                error.add_note(f"shardprop: {registry.way_to_a_rule(schema.op)}")
            raise


def _decide_inside(schema: OpSchema, meta: OutputMeta, terms: Chooser) -> OutputSharding:
    """The decision of a call inside a decomposition, where rows alone do not decide it."""
    found = route(schema, terms)
    if found.who is Who.READ_OUT:
        return read_out(schema)
    if found.rule is not None:
        try:
            return decide(schema, found.rule, terms, lambda _: meta)
        except DECLINED as declined:
            declined_inside(schema.op, declined)
    with terms.one_decision():
        return _torch.torch_propagate_with_meta(schema, meta)


# A decomposition asks for decisions, and a decision for the rows of a decomposition.
decomposer.decide = _decide_inside
