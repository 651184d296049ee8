"""Explains one decision: who makes it, and how."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ... import _torch
from ..._torch import DeviceMesh, DTensorSpec, OpSchema
from ..._torch.symbolic_sizes import is_symbolic
from ...errors import ShardpropError
from ...model.operands import operands_of
from ...model.question import DECLINED, NoStrategyError, Question, question_of
from ...propagation.asked import Asked, asked_of
from ...propagation.decision import left_to_torch
from ...propagation.list_ops import Elements, ListQuestion, element_question, is_tensor_list
from ...propagation.op_call import specs_of
from ...propagation.policy import Policy
from ...propagation.propagator import current_policy, current_terms, uncounted
from ...propagation.route import Route, Who, route
from ...rules.places import function_place
from ...rules.rule import Rule
from ..words import dim_names, dtype_text
from .advice import advice_for
from .asking import Answer, ExplainedQuestion, output_names
from .by_rows import answer_by_rows
from .delegated import answer_by_torch
from .following import answer_by_following
from .model import DecisionExplanation, OperandFacts
from .moves import moves_of, notes_of
from .words import spec_text

__all__ = ["explain_schema", "without_torchs_log"]

# Candidates that advice is sought among.
_MOST_SEARCHED = 64


_log_of_fakes = logging.getLogger("torch._subclasses.fake_tensor")


@contextmanager
def without_torchs_log() -> Iterator[None]:
    """torch logs the traceback of an error on fake tensors before it raises it; here the error is
    part of the answer. What other threads log is logged."""
    here = threading.get_ident()

    def is_of_another(record: logging.LogRecord) -> bool:
        return record.thread != here

    _log_of_fakes.addFilter(is_of_another)
    try:
        yield
    finally:
        _log_of_fakes.removeFilter(is_of_another)


@without_torchs_log()
def explain_schema(schema: OpSchema, *, limit: int = 10) -> DecisionExplanation:
    """Why the op of a schema is placed as it is, under the policy that is enabled (``"torch"``
    where shardprop is not). Nothing is run, and nothing communicates.

    Args:
        schema: As torch's dispatcher hands it to the propagator.
        limit: Candidates to list at most.

    Returns:
        The explanation. Where there is no decision, its `error` says why. Of a list op: that of the
        element which costs the most, with the other kinds of elements in `elements`.

    Raises:
        ShardpropError: no operand is a DTensorSpec with metadata, its sizes are symbolic, or
            `limit` is no positive int.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ShardpropError(f"limit: Expected 1 or more, got {limit!r}.")
    specs = specs_of(schema)
    if not specs:
        raise ShardpropError(f"{schema.op}: Expected a DTensorSpec among the arguments, got none.")
    for spec in specs:
        if spec.tensor_meta is None:
            raise ShardpropError(f"{schema.op}: Expected specs with tensor metadata, got {spec}.")
        if is_symbolic(spec.shape):
            raise ShardpropError(
                f"{schema.op}: Expected plain sizes, got {tuple(spec.shape)}: a decision on "
                "symbolic sizes is not explained. Explain the op on sizes of a real run."
            )
    # As torch's dispatcher asks, whatever mode the caller is in: decisions may be others there.
    with uncounted(), _torch.no_modes(), _torch.as_dispatched():
        policy = current_policy()
        found = route(schema, policy)
        return _Subject(schema, specs[0].mesh, policy, found, limit).explanation()


@dataclasses.dataclass(frozen=True)
class _Subject:
    """What is to be explained."""

    schema: OpSchema
    mesh: DeviceMesh
    policy: Policy
    found: Route
    limit: int

    def explanation(self) -> DecisionExplanation:
        found, schema = self.found, self.schema
        if found.who in (Who.HANDLER, Who.READ_OUT):
            return DecisionExplanation(
                **self._head(), outputs=(), reason="nothing is decided", why=found.why
            )
        if found.rule is None:
            return self._left_to_torch(found)
        try:
            return self._by_rule(found.rule)
        except DECLINED as error:
            declined = error
        except Exception as error:  # what the op, its rule or torch's planner raises of itself
            return self._failed(_words(error))
        try:
            left = left_to_torch(schema, found, declined, current_terms().strict)
        except ShardpropError as error:
            return self._failed(str(error))
        return self._left_to_torch(left)

    def _by_rule(self, rule: Rule) -> DecisionExplanation:
        reordered = self.found.reordered
        asked = asked_of(reordered or self.schema, rule)
        if isinstance(asked, ListQuestion):
            names = [_names_of_element(self.schema, index) for index in asked.elements.first]
        else:
            names = [tuple(each.name for each in _named(self.schema))]
        questions = [
            ExplainedQuestion(question, rule, self.policy, its_names, given)
            for question, its_names, given in zip(
                asked.questions, names, self._as_given(asked), strict=True
            )
        ]
        answers = [self._answer(question) for question in questions]
        choices = [answer.choice for answer in answers if answer.choice is not None]
        if len(choices) == len(answers):
            asked.sharding(choices)  # declines what torch's dispatcher could not execute
        found = [self._explained(*each) for each in zip(questions, answers, strict=True)]
        return _of_list(asked, found) if isinstance(asked, ListQuestion) else found[0]

    def _as_given(self, asked: Asked) -> Sequence[Question | None]:
        """The questions about operands in their own shard orders, where these are reordered."""
        if self.found.reordered is None:
            return [None] * len(asked.questions)
        if not isinstance(asked, ListQuestion):
            return [question_of(self.schema, None)]
        elements = Elements(self.schema)
        return [
            element_question(self.schema, elements, index, None) for index in asked.elements.first
        ]

    def _answer(self, asked: ExplainedQuestion) -> Answer:
        limit, rows_rule = max(self.limit, _MOST_SEARCHED), asked.rule.as_rows
        if rows_rule is None:
            return answer_by_following(asked, limit)
        return answer_by_rows(asked, rows_rule, limit)

    def _explained(self, asked: ExplainedQuestion, answer: Answer) -> DecisionExplanation:
        moved: tuple[Any, ...] = ()
        advice: tuple[Any, ...] = ()
        notes: tuple[str, ...] = ()
        if answer.choice is not None:
            handler = _torch.handler_around_propagation(self.schema.op)
            if handler is None:
                moved = moves_of(asked, answer.choice)
                notes = notes_of(moved)
                advice = advice_for(asked, answer.choice, answer.candidates)
            else:
                notes = (_moved_by_handler(handler),)
        else:
            answer = _misfit(self.schema, asked.rule, answer)
        outputs = len(answer.candidates[0].outputs) if answer.candidates else 0
        if answer.rows:
            outputs = len(answer.rows[0].outputs)
        if self.found.refused_by_torch:
            notes += ("torch refuses this op on these operands; shardprop decides it.",)
        answer = answer._replace(notes=(*answer.notes, *notes))
        return DecisionExplanation(
            **self._head((asked.reordered or asked.question).operands, asked.names),
            **answer.facts(self.limit),
            outputs=output_names(self.schema.op, outputs, asked.question.meta),
            moves=moved,
            advice=advice,
        )

    def _head(
        self,
        specs: list[DTensorSpec] | None = None,
        names: tuple[str, ...] | None = None,
    ) -> dict[str, Any]:
        """Op, policy, mesh, operands and rule."""
        schema = self.schema
        if specs is None or names is None:
            named = _named(schema)
            specs = [each.meta for each in named if isinstance(each.meta, DTensorSpec)]
            names = tuple(each.name for each in named)
        return {
            "op": str(schema.op),
            "policy": self.policy.name,
            "mesh_shape": tuple(self.mesh.shape),
            "mesh_dim_names": tuple(dim_names(self.mesh)),
            "operands": tuple(_facts(name, spec) for name, spec in zip(names, specs, strict=True)),
            "who": self.found.who,
            "rule": self.found.facts,
            "refused_by_torch": self.found.refused_by_torch,
        }

    def _failed(self, error: str) -> DecisionExplanation:
        head = self._head()
        return DecisionExplanation(**head, outputs=(), reason="no strategy", why=error, error=error)

    def _left_to_torch(self, found: Route) -> DecisionExplanation:
        head = self._head() | {"who": found.who}
        notes = () if found.declined is None else (found.why,)
        names = [each.name for each in head["operands"]]
        try:
            answer, moves = answer_by_torch(self.schema, found, self.policy, names)
        except Exception as error:  # torch refuses the op, in its own words
            return dataclasses.replace(self._failed(_words(error)), who=found.who, notes=notes)
        return DecisionExplanation(
            **head,
            **answer._replace(notes=notes).facts(self.limit),
            outputs=output_names(self.schema.op, len(answer.candidates[0].outputs)),
            moves=moves,
        )


def _of_list(asked: ListQuestion, found: Sequence[DecisionExplanation]) -> DecisionExplanation:
    """Each kind of element; all of them in the one that costs the most."""
    elements = asked.elements
    kinds = []
    for group, (index, one) in enumerate(zip(elements.first, found, strict=True)):
        alike = elements.group.count(group)
        note = f"Element {index} of {elements.length}"
        note += f", and {alike - 1} more that are like it." if alike > 1 else "."
        kinds.append(dataclasses.replace(one, notes=(note, *one.notes), alike=alike))
    most_expensive = max(kinds, key=lambda one: (one.error is not None, one.us))
    return dataclasses.replace(most_expensive, elements=tuple(kinds) if len(kinds) > 1 else ())


def _named(schema: OpSchema) -> list[Any]:
    """The operands by name, in the order in which torch counts them: keyword arguments last, as
    they were given."""
    positional = operands_of(schema.op, schema.args_schema, {})
    keywords = [
        operand
        for name, value in schema.kwargs_schema.items()
        for operand in operands_of(schema.op, (), {name: value})
    ]
    return [*positional, *keywords]


def _names_of_element(schema: OpSchema, index: int) -> tuple[str, ...]:
    """The operands of one element of a list op: ``self[3]``."""
    names = [argument.name for argument in _torch.function_schema(schema.op).arguments]
    found = []
    for name, value in zip(names, schema.args_schema, strict=False):
        if isinstance(value, DTensorSpec):
            found.append(name)
        elif is_tensor_list(value):
            found.append(f"{name}[{index}]")
    found += [name for name, x in schema.kwargs_schema.items() if isinstance(x, DTensorSpec)]
    return tuple(found)


def _facts(name: str, spec: DTensorSpec) -> OperandFacts:
    meta = spec.tensor_meta
    assert meta is not None
    shape = tuple(map(int, meta.shape))
    return OperandFacts(
        name, shape, dtype_text(meta.dtype), tuple(spec.placements), spec_text(spec)
    )


def _moved_by_handler(handler: Callable[..., Any]) -> str:
    return (
        f"torch's dispatcher hands the op to {function_place(handler)}, which takes where the "
        "output is from the decision, but moves no operand as it says: the prices are of moves "
        "that do not run."
    )


def _misfit(schema: OpSchema, rule: Rule, answer: Answer) -> Answer:
    """A rule that leaves no operand where it has to stay has an error of its own."""
    try:
        rule.refuse(schema, NoStrategyError())
    except ShardpropError as error:
        return answer._replace(error=str(error))
    return answer


def _words(error: Exception) -> str:
    text = str(error).strip()
    return text or type(error).__name__
