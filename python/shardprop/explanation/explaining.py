"""One decision explained: who decides it, and what he makes of it."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import _core, _torch, decision, registry
from .._torch import DeviceMesh, DTensorSpec, OpSchema
from ..decision import ReadOut, question_of, refuse_misfit
from ..decomposition import Declined, Rows
from ..engine import GivenRows, NoStrategyError
from ..errors import ShardpropError
from ..lists import Elements, element_question, is_tensor_list
from ..metadata import output_meta
from ..operands import operands_of
from ..policy import Policy
from ..propagator import current_policy, decomposer
from ..registered import RegisteredRule
from ..sizes import is_symbolic
from .advice import advice_for
from .asking import Answer, Asked, output_names
from .by_rows import answer_by_rows
from .delegated import ask_torch
from .following import answer_by_following
from .model import DecisionExplanation, OperandFacts
from .moves import moves_of, notes_of
from .rule_facts import facts_of_rule, function_place
from .words import dim_names, dtype_text, spec_text

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
    specs = _specs_of(schema)
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
    # Whoever asks may be in the midst of a fake mode of his, in which decisions are others.
    with _torch.no_modes():
        return _Subject(schema, specs, current_policy(), limit).explanation()


def _specs_of(schema: OpSchema) -> list[DTensorSpec]:
    leaves = _torch.tree_leaves((schema.args_schema, schema.kwargs_schema))
    return [leaf for leaf in leaves if isinstance(leaf, DTensorSpec)]


@dataclasses.dataclass(frozen=True)
class _Subject:
    """What is to be explained."""

    schema: OpSchema
    specs: list[DTensorSpec]
    policy: Policy
    limit: int

    def explanation(self) -> DecisionExplanation:
        schema = self.schema
        if schema.op in _torch.handlers_instead_of_propagation():
            return self._undecided(
                None, "torch's dispatcher hands the op to a function of its own."
            )
        declined = ""
        try:
            rule = self._rule()
        except Declined as reason:
            rule, declined = None, str(reason)
        if isinstance(rule, ReadOut):
            why = "torch reads the number that this rank holds: nothing is placed, nothing moves."
            return self._undecided(rule, why)
        if rule is None:
            notes: tuple[str, ...] = ()
            if declined and facts_of_rule(self.schema.op, None).kind != "none":
                notes = (f"Its decomposition has no rows of ours: {declined}.",)
            return self._left_to_torch(None, notes)
        try:
            return self._by_rule(rule)
        except (_core.Unsupported, _core.RuleError, NoStrategyError) as reason:
            try:
                if isinstance(rule, RegisteredRule):
                    refuse_misfit(schema, reason)
            except ShardpropError as error:
                return self._failed(rule, str(error))
            return self._left_to_torch(rule, (f"The core left this to torch: {reason}.",))
        except Exception as error:  # what the op, its rule or torch's planner raises of itself
            return self._failed(rule, _words(error))

    def _rule(self) -> Any:
        """As `propagator` finds it; Declined where torch walks a decomposition by itself."""
        rule = decision.rule_of(self.schema.op)
        if rule is None and registry.why_no_single_dim_rule(self.schema.op) == "decomposition":
            return decomposer.rows(self.schema)
        return rule

    def _by_rule(self, rule: Any) -> DecisionExplanation:
        schema = self.schema
        if decision.is_list_op(schema) and not isinstance(rule, GivenRows):
            return self._of_list(rule)
        meta = output_meta(schema)
        if not decision.is_own(rule):
            _torch.validate_meta_count(schema, meta)
        question = question_of(schema, meta, rule)
        names = [each.name for each in _named(schema)]
        return self._of_question(Asked(question, rule, self.policy, tuple(names)))

    def _of_list(self, rule: Any) -> DecisionExplanation:
        """Each kind of element; all of them in the one that costs the most."""
        schema = self.schema
        elements = Elements(schema)
        meta = elements.meta(output_meta)
        if not decision.is_own(rule):
            _torch.validate_meta_count(schema, meta)
        found = []
        for group, index in enumerate(elements.first):
            question = element_question(schema, elements, index, meta)
            names = _names_of_element(schema, index)
            alike = elements.group.count(group)
            note = f"Element {index} of {elements.length}"
            note += f", and {alike - 1} more that are like it." if alike > 1 else "."
            one = self._of_question(Asked(question, rule, self.policy, names))
            found.append(dataclasses.replace(one, notes=(note, *one.notes), alike=alike))
        dearest = max(found, key=lambda one: (one.error is not None, one.us))
        return dataclasses.replace(dearest, elements=tuple(found) if len(found) > 1 else ())

    def _of_question(self, asked: Asked) -> DecisionExplanation:
        by = answer_by_following if asked.follows else answer_by_rows
        answer = by(asked, max(self.limit, _MOST_SEARCHED))
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
        elif isinstance(asked.rule, RegisteredRule):
            answer = _misfit(self.schema, answer)
        outputs = len(answer.candidates[0].outputs) if answer.candidates else 0
        rows = answer.rows
        notes = (*answer.notes, *notes)
        if isinstance(asked.rule, Rows) and asked.rule.beyond_torch:
            notes += ("torch refuses this op on these operands; shardprop decides it.",)
        return DecisionExplanation(
            **self._head(asked.rule, asked.operands, asked.names),
            outputs=output_names(asked.question, len(rows[0].outputs) if rows else outputs),
            rows=rows,
            candidates=answer.candidates[: self.limit],
            valid=answer.valid,
            considered=answer.considered,
            rejections=answer.rejections,
            reason=answer.reason,
            why=answer.why,
            notes=notes,
            moves=moved,
            advice=advice,
            error=answer.error,
        )

    def _head(
        self,
        rule: Any,
        specs: list[DTensorSpec] | None = None,
        names: tuple[str, ...] | None = None,
    ) -> dict[str, Any]:
        """Op, policy, mesh, operands and rule."""
        schema = self.schema
        if specs is None or names is None:
            named = _named(schema)
            specs = [each.meta for each in named if isinstance(each.meta, DTensorSpec)]
            names = tuple(each.name for each in named)
        mesh: DeviceMesh = self.specs[0].mesh
        return {
            "op": str(schema.op),
            "policy": self.policy.name,
            "mesh_shape": tuple(mesh.shape),
            "mesh_dim_names": tuple(dim_names(mesh)),
            "operands": tuple(_facts(name, spec) for name, spec in zip(names, specs, strict=True)),
            "rule": facts_of_rule(schema.op, rule),
        }

    def _undecided(self, rule: Any, why: str) -> DecisionExplanation:
        head = self._head(rule)
        return DecisionExplanation(**head, outputs=(), reason="nothing is decided", why=why)

    def _failed(self, rule: Any, error: str) -> DecisionExplanation:
        head = self._head(rule)
        return DecisionExplanation(**head, outputs=(), reason="no strategy", why=error, error=error)

    def _left_to_torch(self, rule: Any, notes: tuple[str, ...]) -> DecisionExplanation:
        head = self._head(rule)
        names = [each.name for each in head["operands"]]
        try:
            answer = ask_torch(self.schema, self.policy, names)
        except Exception as error:  # torch refuses the op, in its own words
            failed = self._failed(rule, _words(error))
            return dataclasses.replace(failed, notes=notes)
        returns = [each.name for each in _torch.function_schema(self.schema.op).returns]
        count = len(answer.candidates[0].outputs)
        named = len(returns) == count and all(returns)
        numbered = ("output",) if count == 1 else tuple(f"output[{i}]" for i in range(count))
        return DecisionExplanation(
            **head,
            outputs=tuple(map(str, returns)) if named else numbered,
            candidates=answer.candidates[: self.limit],
            valid=answer.count,
            considered=answer.count,
            reason="torch decides",
            why=answer.why,
            notes=notes,
            moves=answer.moves,
        )


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


def _misfit(schema: OpSchema, answer: Answer) -> Answer:
    """A registered rule that leaves no operand where it has to stay has an error of its own."""
    try:
        refuse_misfit(schema, NoStrategyError())
    except ShardpropError as error:
        return answer._replace(error=str(error))
    return answer


def _words(error: Exception) -> str:
    text = str(error).strip()
    return text or type(error).__name__
